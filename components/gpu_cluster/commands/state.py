"""Read and write a stack's state, with its secrets encrypted.

The automation API exports a state with its secrets in plain text, and imports it from a temporary
file with that text (pulumi 3.250.0, automation/_local_workspace.py, export_stack and import_stack).
The engine's own commands keep secrets encrypted.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from typing import Any

from pulumi import automation

from gpu_cluster.commands.left import without


def export_state(selected: automation.Stack) -> automation.Deployment:
    """Return the state of a stack.

    Raises:
        CommandError: The engine can't read the state.
    """
    exported = json.loads(_run_stack_command(selected, "export"))
    return automation.Deployment(exported.get("version"), exported.get("deployment"))


def import_state(selected: automation.Stack, state: automation.Deployment) -> None:
    """Replace the state of a stack; all pending operations are dropped.

    Args:
        state: The new state, as `export_state` returned it; its secrets are encrypted.

    Raises:
        CommandError: The engine refuses the state, or can't write it.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"version": state.version, "deployment": state.deployment}, file)
        file.flush()
        _run_stack_command(selected, "import", "--file", file.name)


def remove_from_state(
    selected: automation.Stack, state: automation.Deployment, gone: Iterable[str]
) -> None:
    """Remove resources from the state of a stack; nothing is deleted elsewhere.

    Args:
        state: The stack's state, as `export_state` returned it.
        gone: URNs of the resources.

    Raises:
        CommandError: The engine refuses the state, or can't write it.
    """
    deployment = state.deployment or {}
    reduced = {**deployment, "resources": without(resources_of(state), gone)}
    import_state(selected, automation.Deployment(state.version, reduced))


def resources_of(state: automation.Deployment) -> list[dict[str, Any]]:
    """Return the resources in a state, as `export_state` returned it."""
    return (state.deployment or {}).get("resources") or []


def _run_stack_command(selected: automation.Stack, command: str, *options: str) -> str:
    workspace = selected.workspace
    arguments = ["stack", command, "--stack", selected.name, *options]
    environment = dict(workspace.env_vars)
    return str(workspace.pulumi_command.run(arguments, workspace.work_dir, environment).stdout)
