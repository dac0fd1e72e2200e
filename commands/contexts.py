"""Refuses a stack whose context no kubeconfig has, before the engine is started."""

from __future__ import annotations

from commands.stack import Stack
from components.inspection.extent import Extent
from components.kubernetes.kubeconfig_contexts import missing_context
from policies.faults import FaultError


def require_context(stack: Stack) -> None:
    """Check that the context of a stack on its own cluster is in the kubeconfig.

    A stack that makes its cluster has no context before, and an inspection that leaves the cluster
    out needs none.

    Raises:
        FaultError: no kubeconfig has it; the contexts that there are are named.
    """
    inspected = Extent.wanted().has_cluster
    if stack.embedded or stack.cluster.kubernetes_packages.init is not None or not inspected:
        return
    if fault := missing_context(stack.cluster.kubernetes.context, stack.file.name):
        raise FaultError(fault)
