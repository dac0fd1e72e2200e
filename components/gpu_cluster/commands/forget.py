"""Run `gpu-cluster forget gpu-2`: remove from the state a host that no longer exists.

Nothing is undone on the host itself. Remove the host from the stack file too; then `gpu-cluster
up` and `gpu-cluster destroy` no longer try to reach it.
"""

from __future__ import annotations

import sys

from gpu_cluster.commands.contexts import require_context, require_own_state
from gpu_cluster.commands.engine import select
from gpu_cluster.commands.left import name_of, of_host
from gpu_cluster.commands.output import answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state, remove_from_state, resources_of
from gpu_cluster.commands.state_copies import keep_copy


def main(*, host: str) -> None:
    """Remove a host from the state; exit with 1 if the state lacks it."""
    stack = Stack.current()
    require_context(stack)
    require_own_state(stack)
    with answering("forget") as json_output, stack.unsalted():
        selected = select(stack)
        exported = export_state(selected)
        gone = of_host(resources_of(exported), host)
        if not gone or exported.deployment is None:
            print(f"host: found {host!r}, which is not in the state; wanted: a host of the state")
            sys.exit(1)
        keep_copy(stack, exported)
        remove_from_state(selected, exported, gone)
        json_output["forgotten"] = [name_of(urn) for urn in gone]
        for urn in gone:
            print(f"forgotten: {name_of(urn)}; what it changed stays on {host}")
