"""Access to the Pulumi engine through its automation API: one stack, its lock, its policy pack."""

from __future__ import annotations

import os
from pathlib import Path

from pulumi import automation

from gpu_cluster.change.document import Move
from gpu_cluster.commands import charts
from gpu_cluster.commands.backend import backend_folder, heal
from gpu_cluster.commands.environment import variables
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.left import name_of
from gpu_cluster.commands.lock import holders, is_abandoned, note_pids
from gpu_cluster.commands.project import ROOT
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state, import_state, resources_of
from gpu_cluster.commands.tools import ensure, plugin_files
from gpu_cluster.machine.orphans import end_orphans

PROVIDER, KUBERNETES = "pulumi:providers:kubernetes", "gpu-cluster-kubernetes"
"""Type and name of the provider whose inputs name the stack's cluster."""
CREATING = "creating"
"""Kind of a pending operation: a creation whose result is unknown.

Source: pulumi v3.250.0, sdk/go/common/apitype/core.go.
"""


def select(stack: Stack) -> automation.Stack:
    """Return the Pulumi stack; create a missing stack, and remove the lock of a killed run."""
    environment = variables(stack)
    os.environ.update(environment)
    end_orphans(plugin_files(Path(environment["PULUMI_HOME"])))
    _tell_origins(environment)
    url = environment.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")
    backend = backend_folder(url)
    if backend:
        for line in heal(backend, Path(environment["PULUMI_HOME"]), stack.name):
            print(line, flush=True)
    workspace = automation.LocalWorkspace(work_dir=str(ROOT), env_vars=environment)
    selected = automation.Stack.create_or_select(stack.name, workspace)
    if backend:
        if is_abandoned(backend, stack.name):
            print("Removed the stale lock of an interrupted run.")
            selected.cancel()
        for holder in holders(backend, stack.name):
            print(f"The stack is locked by {holder}.", flush=True)
        note_pids(backend, stack.name)
    return selected


def move_of(stack: Stack, exported: automation.Deployment) -> Move | None:
    """Return the other cluster that a stack moves to; None if it stays in its cluster.

    Args:
        exported: Its state.
    """
    now = stack.cluster.kubernetes.identifier
    for resource in resources_of(exported):
        if resource["type"] == PROVIDER and name_of(resource["urn"]) == KUBERNETES:
            was = (resource.get("inputs") or {}).get("clusterIdentifier")
            return Move(was=was, now=now) if isinstance(was, str) and was != now else None
    return None


def stale(stack: Stack, exported: automation.Deployment) -> bool:
    """Check whether the state needs a refresh, because it may contain resources that don't exist.

    This is so in two cases: a killed run left updates or deletions whose results are unknown, or
    the embedded cluster was recreated. Without a refresh, Helm would, for example, uninstall a
    release that no longer exists. Unfinished creations need no refresh, because the state has no
    resource for them.

    Args:
        exported: Its state.
    """
    return _is_stale(stack, _pending_operations(exported))


def settle(selected: automation.Stack, stack: Stack) -> bool:
    """Drop the creations that a killed run left unfinished; return whether to refresh first.

    The engine keeps unfinished creations in the state until a person clears them (pulumi v3.250.0,
    pkg/backend/snapshot.go). This program can drop them itself: it creates the declared resources
    again, and hooks remove leftovers that would be in the way. Importing a state drops all pending
    operations (pkg/cmd/pulumi/stack/io.go). So if there are pending updates or deletions too,
    nothing is imported: the run refreshes, which resolves them, and the next call drops the
    creations.
    """
    exported = export_state(selected)
    pending = _pending_operations(exported)
    if pending and all(operation == CREATING for operation in pending):
        import_state(selected, exported)
        print(f"A killed run left {len(pending)} unfinished creations: the state drops them.")
    return _is_stale(stack, pending)


def _is_stale(stack: Stack, pending: list[str]) -> bool:
    if (cluster := embedded_cluster(stack)) and cluster.replaced():
        print("The embedded cluster was recreated since the last run; refreshing the state first.")
        return True
    return any(operation != CREATING for operation in pending)


def _pending_operations(exported: automation.Deployment) -> list[str]:
    """Return the kinds of the operations that a killed run left unfinished."""
    operations = (exported.deployment or {}).get("pending_operations") or []
    return [str(operation["type"]) for operation in operations]


def _tell_origins(environment: dict[str, str]) -> None:
    """Print which of this project's own tools and charts replace the official ones."""
    tools = ensure("pulumi-language-python", "pulumi-resource-command").values()
    own_tools = [tool.name for tool in tools if tool.origin == "project's own"]
    if own_tools:
        print(f"In use: the project's own {' and '.join(own_tools)}; no release can be reached.")
    if environment.get("GPU_CHARTS") == charts.FAKE_CHARTS:
        print(f"In use: fake charts ({charts.FAKE_CHARTS}); no chart repository can be reached.")
