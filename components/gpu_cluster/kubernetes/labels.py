"""Labels and annotations of the objects that this program creates."""

from __future__ import annotations

LABELS = {"app.kubernetes.io/managed-by": "gpu-cluster"}
"""Label of every object that this program creates."""
MANAGER = "pulumi.com/patchFieldManager"
"""Annotation that sets the field manager of a server-side apply.

Source: pulumi-kubernetes v4.25.0, provider/pkg/provider/provider.go, `fieldManagerName`.
"""


def field_manager(stack: str) -> str:
    """Return the name of the field manager of a stack's objects."""
    return f"gpu-cluster-{stack}"
