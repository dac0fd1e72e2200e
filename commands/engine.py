"""The Pulumi engine by its automation API: one stack, its lock, its policy pack."""

from __future__ import annotations

import os
from pathlib import Path

from pulumi import automation

import toolchain
from commands import charts
from commands.environment import ROOT, variables
from commands.lock import is_abandoned, note_pids
from commands.orphans import end_orphans
from commands.stack import Stack

POLICIES = str(ROOT / "components" / "guardrails" / "pack")
CREATING = "creating"
"""Kind of an unfinished creation (pulumi v3.250.0, sdk/go/common/apitype/core.go)."""


def select(stack: Stack) -> automation.Stack:
    """The stack in its backend, made where it is missing, freed of a lock that nobody holds."""
    environment = variables(stack)
    os.environ.update(environment)
    end_orphans()
    _drop_empty_attributes(environment)
    _tell_origins(environment)
    workspace = automation.LocalWorkspace(work_dir=str(ROOT), env_vars=environment)
    selected = automation.Stack.create_or_select(stack.name, workspace)
    if backend := _local_backend(environment):
        if is_abandoned(backend, stack.name):
            print("A killed run left its lock; nobody holds it any more: it is removed.")
            selected.cancel()
        note_pids(backend, stack.name)
    return selected


def stale(selected: automation.Stack, stack: Stack) -> bool:
    """Whether the state may tell of things that are gone, so that the run reads them first.

    A killed run left updates or deletions of which the state does not know how they ended, or the
    embedded cluster was made anew: a release that is gone, for instance, can't be uninstalled
    again. Of unfinished creations the state holds no resource, so there is nothing to read.
    """
    return _is_stale(stack, _pending(selected.export_stack()))


def settle(selected: automation.Stack, stack: Stack) -> bool:
    """Drop the creations that a killed run left unfinished; return whether to refresh first.

    The engine keeps unfinished creations in the state until a person clears them (pulumi v3.250.0,
    pkg/backend/snapshot.go). This program needs nobody for it: it creates again what it declares,
    and hooks remove what would be in the way. An import of the state drops all pending operations
    (pkg/cmd/pulumi/stack/io.go), so other operations come first: the run refreshes, which ends
    them, and the next call drops the creations.
    """
    exported = selected.export_stack()
    pending = _pending(exported)
    if pending and all(operation == CREATING for operation in pending):
        selected.import_stack(exported)
        print(f"A killed run left {len(pending)} unfinished creations: the state drops them.")
    return _is_stale(stack, pending)


def _is_stale(stack: Stack, pending: list[str]) -> bool:
    if stack.replaced():
        print("The embedded cluster was made anew since the last run: its objects are read first.")
        return True
    return any(operation != CREATING for operation in pending)


def _pending(exported: automation.Deployment) -> list[str]:
    """Return the kinds of the operations that a killed run left unfinished."""
    operations = (exported.deployment or {}).get("pending_operations") or []
    return [str(operation["type"]) for operation in operations]


def _local_backend(environment: dict[str, str]) -> Path | None:
    """The local backend's folder; None where the state is elsewhere."""
    url = environment.get("PULUMI_BACKEND_URL") or os.environ.get("PULUMI_BACKEND_URL", "")
    if not url.startswith("file://"):
        return None
    path = url.removeprefix("file://").partition("?")[0]
    return Path(path).expanduser() / ".pulumi"


def _drop_empty_attributes(environment: dict[str, str]) -> None:
    """Removes attribute files that a kill left empty: they hold nothing and stop every command.

    A backend that was opened without ``metadata=skip`` leaves them (`local_backend`).
    """
    folder = _local_backend(environment)
    for path in folder.glob("stacks/**/*.attrs") if folder else ():
        if path.stat().st_size == 0:
            path.unlink()
            print(f"A killed write left {path} empty: it is removed.")


def _tell_origins(environment: dict[str, str]) -> None:
    """Says what stands in for an official part, so that nobody takes it for the real one."""
    tools = toolchain.ensure("pulumi-language-python", "pulumi-resource-command").values()
    own = [tool.name for tool in tools if tool.origin == "project's own"]
    if own:
        print(f"In use: the project's own {' and '.join(own)}; no release can be reached.")
    if environment.get("GPU_CHARTS") == charts.FAKE_CHARTS:
        print(f"In use: fake charts ({charts.FAKE_CHARTS}); no chart repository can be reached.")
