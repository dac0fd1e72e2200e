"""Environment of commands that only read a cluster: without engine, toolchain and lock."""

from __future__ import annotations

import os

from gpu_cluster.commands.contexts import require_context
from gpu_cluster.commands.environment import unproxied
from gpu_cluster.commands.lab import embedded_cluster
from gpu_cluster.commands.stack import Stack


def reading(stack: Stack) -> None:
    """Set the variables with which a stack's cluster is read; start nothing.

    Exit with 1 if the stack's embedded cluster does not run.

    Raises:
        FaultError: No kubeconfig has the stack's context.
    """
    os.environ.update(unproxied(os.environ))
    if cluster := embedded_cluster(stack):
        cluster.require_running()
        os.environ["KUBECONFIG"] = str(stack.kubeconfig)
    require_context(stack)
