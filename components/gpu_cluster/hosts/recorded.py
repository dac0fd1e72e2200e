"""Resources that the Pulumi state records.

The engine deletes the Commands of a host that is no longer declared after everything else in the
run, and this deletion undoes the host's preparation. The inspection runs before, so it needs the
names of these hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from gpu_cluster.hosts.prepared import typed_name

RESOURCES = "pulumi:pulumi:readStackResourceOutputs"
"""Name of the Pulumi function that returns the resources in a stack's state.

The engine crashes if it reads a stack that no run has ever changed (pulumi v3.274.1,
pkg/backend/backend.go, GetStackResourceOutputs).
"""
OUTPUTS = "pulumi:pulumi:readStackOutputs"
"""Name of the Pulumi function that returns the outputs of a stack; empty before the first run.

Source of both names: pulumi v3.274.1, pkg/resource/deploy/builtins.go.
"""


def known_names() -> frozenset[str] | None:
    """Return the type and name (`type::name`) of each resource in the stack's state.

    The result is None if the stack exports no outputs, because such a stack may be new.
    """
    return recorded_names() if _read_state(OUTPUTS) else None


def recorded_names() -> frozenset[str]:
    """Return the type and name (`type::name`) of each resource in the stack's state."""
    return frozenset(map(typed_name, _read_state(RESOURCES)))


def recorded_outputs() -> dict[str, Mapping[str, Any]]:
    """Return the outputs of each resource in the stack's state, by type and name (`type::name`).

    The result is empty if the stack exports no outputs, because such a stack may be new.
    """
    if not _read_state(OUTPUTS):
        return {}
    return {
        typed_name(urn): dict(resource.get("outputs") or {})
        for urn, resource in _read_state(RESOURCES).items()
    }


def _read_state(function: str) -> dict[str, Any]:
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    argument = "name" if function == OUTPUTS else "stackName"
    result = pulumi.runtime.invoke(function, {argument: stack}).value or {}
    return dict(result.get("outputs") or {})
