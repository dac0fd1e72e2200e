"""Check, before the engine starts, that a command works on the stack that the user means."""

from __future__ import annotations

import os

from commands.stack import Stack
from components.inspection.extent import Extent
from components.kubernetes.kubeconfig_contexts import missing_context
from policies.faults import Fault, FaultError


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


def require_own_state(stack: Stack) -> None:
    """Check that a command with ``EMBEDDED=1`` does not change the state of the real stack.

    The hosts in that state are real: to destroy their resources would undo their preparation.

    Args:
        stack: The stack that a command is about to change.

    Raises:
        FaultError: An embedded cluster replaces the real one, and `PULUMI_BACKEND_URL` names a
            backend, which may hold the real stack. Nothing was changed.
    """
    if stack.is_fake and os.environ.get("PULUMI_BACKEND_URL"):
        raise FaultError(
            Fault(
                f"EMBEDDED=1 STACK={stack.name}",
                "PULUMI_BACKEND_URL, whose backend may hold the real stack",
                "the state of the embedded cluster",
                "unset PULUMI_BACKEND_URL; to change the real stack, unset EMBEDDED",
            )
        )
