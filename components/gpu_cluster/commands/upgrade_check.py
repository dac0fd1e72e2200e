"""Run `gpu-cluster upgrade-check`: show what the installed version changes for a stack.

The change log of the release says what changed since the version that deployed the stack; the
stack file says which of these changes are in settings of this stack. A stack file that this version
can't load is shown with the lines to edit. The command only reads.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from gpu_cluster.change.document import Document, Outcome, Problem
from gpu_cluster.change.lines import StackFile, located
from gpu_cluster.change.text import upgrade_lines
from gpu_cluster.cluster import PROGRAM_VERSION, GpuCluster
from gpu_cluster.commands.backend import backend_folder, recorded_resources
from gpu_cluster.commands.environment import local_states
from gpu_cluster.commands.output import Answer, answering, say
from gpu_cluster.commands.release_notes import upgrade_of
from gpu_cluster.commands.stack import Stack
from gpu_rules.faults import ConfigError, Fault, FaultError
from gpu_rules.version import VERSION


def recorded_version(resources: Iterable[Mapping[str, Any]]) -> str:
    """Return the version that the last successful run wrote to the state; empty if none did."""
    for resource in resources:
        recorded = (resource.get("outputs") or {}).get(PROGRAM_VERSION)
        if resource["type"] == GpuCluster.TYPE and isinstance(recorded, str):
            return recorded
    return ""


def deployed_resources(stack: Stack) -> list[dict[str, Any]]:
    """Return the resources in a stack's state, from a local backend; empty if none knows the stack.

    The engine is not needed, so the stack file may have faults.
    """
    url = os.environ.get("PULUMI_BACKEND_URL")
    backends = map(backend_folder, [url] if url else local_states())
    states = (recorded_resources(backend, stack.name) for backend in backends if backend)
    return next(filter(None, states), [])


def run(stack: Stack, since: str, json_output: Answer) -> bool:
    """Show what the installed version changes; return whether the stack file loads.

    Args:
        since: The version that deployed the stack; empty: the one in its state.
        json_output: The JSON document of the command; gets ``upgrade`` and ``faults``.

    Raises:
        FaultError: The version that deployed the stack is unknown.
    """
    was = since or recorded_version(deployed_resources(stack))
    if not was:
        raise FaultError(
            Fault(
                f"stack {stack.name}",
                "no local state with the version of the last run",
                "the version that deployed the stack",
                "name it with --since, or see `gpu-cluster preview`, which reads each backend",
            )
        )
    file = StackFile.read(stack.file)
    faults: tuple[Problem, ...] = ()
    try:
        _ = stack.cluster
    except ConfigError as error:
        faults = tuple(Problem(text=str(fault)) for fault in error.faults)
    document = located(
        Document(
            stack=stack.name,
            outcome=Outcome.FAILED if faults else Outcome.UNCHANGED,
            faults=faults,
            upgrade=upgrade_of(was, VERSION, file),
        ),
        file,
    )
    for fault in document.faults:
        say(f"to edit: {fault.text}")
    for line in upgrade_lines(document):
        say(line)
    content = document.model_dump(mode="json", by_alias=True)
    json_output |= {"upgrade": content["upgrade"], "faults": content["faults"]}
    if document.upgrade is None:
        say(f"gpu-cluster {VERSION} deployed this stack: nothing to upgrade")
    return not faults


def main(*, since: str = "") -> None:
    """Show what the installed version changes; exit with 1 if the stack file must be edited.

    Args:
        since: The version that deployed the stack; empty: the one in its state.
    """
    stack = Stack.named()
    with answering("upgrade-check") as json_output:
        loads = run(stack, since, json_output)
        if not loads:
            sys.exit(f"upgrade-check: {stack.file.name} must be edited for gpu-cluster {VERSION}")
