"""Check, before the engine starts, that the stack's kubeconfig context exists."""

from __future__ import annotations

from commands.stack import Stack
from components.inspection.extent import Extent
from components.kubernetes.kubeconfig_contexts import missing_context
from policies.faults import FaultError


def require_context(stack: Stack) -> None:
    """Check that the stack's kubeconfig context exists, if the stack uses an existing cluster.

    A stack that creates its own cluster with kubeadm has no context yet, and an inspection that
    leaves the cluster out needs none.

    Args:
        stack: The stack that a command works on.

    Raises:
        FaultError: No kubeconfig has the context. The error lists the contexts that exist.
    """
    inspected = Extent.wanted().has_cluster
    if stack.embedded or stack.cluster.kubernetes_packages.init is not None or not inspected:
        return
    if fault := missing_context(stack.cluster.kubernetes.context, stack.file.name):
        raise FaultError(fault)
