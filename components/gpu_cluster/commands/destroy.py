"""Run `gpu-cluster destroy`: destroy the stack, but keep the embedded cluster and hosts running."""

from __future__ import annotations

import time

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.commands.contexts import require_consent, require_context, require_own_state
from gpu_cluster.commands.engine import select, settle
from gpu_cluster.commands.failure import stop
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.left import left
from gpu_cluster.commands.output import Answer, answering
from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.state import export_state, resources_of
from gpu_cluster.commands.state_copies import keep_copy
from gpu_cluster.commands.up import changed
from gpu_cluster.commands.watched import Failed, watched
from gpu_rules.printable import counted


def destroy(stack: Stack, json_output: Answer) -> int:
    """Destroy all resources of the stack; return how many were deleted.

    The embedded cluster and its hosts are started first if they don't run, because the stack's
    changes have to be undone on them. A host that does not answer does not stop the deletion of the
    other resources. If resources of the stack are left, they are listed and the program exits with
    1.

    Args:
        stack: The stack to destroy.
        json_output: The JSON document of the command; gets ``left``, the resources that could
            not be deleted.

    Raises:
        FaultError: No kubeconfig has the stack's context, the state may be that of the real stack,
            which ``--embedded`` replaces, or a person did not consent; nothing was changed.
    """
    require_context(stack)
    selected = select(stack)
    exported = export_state(selected)
    resources = resources_of(exported)
    if not resources:
        return 0
    require_own_state(stack)
    require_consent(stack, len(resources))
    keep_copy(stack, exported)
    if cluster := embedded_cluster(stack):
        cluster.start()
    try:
        result = watched(
            selected.destroy,
            json_output,
            continue_on_error=True,
            refresh=settle(selected, stack),
        )
    except Failed as error:
        remaining = left(resources_of(export_state(selected)))
        json_output["left"] = remaining
        for line in remaining:
            print(f"left: {line}")
        stop(
            f"destroy: {len(remaining)} left: {error}; fix the cause and run it again, or use "
            f"`gpu-cluster forget{stack_option(stack.name)} name` for a host that no longer exists"
        )
    return changed(result.summary)


def main() -> None:
    """Destroy the stack that `STACK` names."""
    started = time.monotonic()
    stack = Stack.current()
    with (
        answering("destroy") as json_output,
        stack.held("gpu-cluster destroy"),
        stack.unsalted(),
    ):
        removed = destroy(stack, json_output)
        json_output["removed"] = removed
        print(
            f"destroy: {counted(removed, 'resource')} removed, {time.monotonic() - started:.0f} s"
        )
