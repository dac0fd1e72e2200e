"""Labels, annotations and field managers of the objects that this program writes."""

from __future__ import annotations

from typing import Any

FIELD_MANAGERS = "gpu-cluster-"
"""Beginning of the names of this program's field managers."""
LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}
"""Label of every object that this program creates."""
MANAGER = "pulumi.com/patchFieldManager"
"""Annotation that sets the field manager of a server-side apply.

Source: pulumi-kubernetes v4.25.0, provider/pkg/provider/provider.go, `fieldManagerName`.
"""


def field_manager(stack: str) -> str:
    """Return the name of the field manager of a stack's objects."""
    return f"{FIELD_MANAGERS}{stack}"


def pool_manager(stack: str, pool: str) -> str:
    """Return the name of the field manager of a pool's labels."""
    return f"{field_manager(stack)}-{pool}"


def owned_keys(entry: dict[str, Any], place: str) -> set[str]:
    """Return the keys of labels or annotations that an entry of an object's managed fields owns.

    Args:
        entry: Entry of `metadata.managedFields`.
        place: `labels` or `annotations`.
    """
    metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
    return {key.removeprefix("f:") for key in metadata.get(f"f:{place}") or {} if key != "."}
