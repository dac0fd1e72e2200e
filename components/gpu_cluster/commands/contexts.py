"""Check, before the engine starts, that a command works on the stack that the user means."""

from __future__ import annotations

import os
import sys

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.commands.stack import Stack
from gpu_cluster.inspection.extent import Extent
from gpu_cluster.kubernetes.kubeconfig_contexts import missing_context
from gpu_rules.faults import Fault, FaultError, show
from gpu_rules.printable import printable


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


def require_embedded(stack: Stack) -> None:
    """Check that the stack runs on an embedded cluster, before a command stops that cluster.

    Args:
        stack: The stack that a command works on.

    Raises:
        FaultError: The stack's cluster is a real one. Nothing was changed.
    """
    if stack.embedded:
        return
    option = stack_option(stack.name)
    raise FaultError(
        Fault(
            f"stack {stack.name}",
            f"the real cluster of context {show(stack.cluster.kubernetes.context)}",
            "an embedded cluster, which `gpu-cluster down` stops",
            f"`gpu-cluster destroy{option}` to destroy this stack, or `gpu-cluster "
            f"down{option} --embedded` to "
            "end a rehearsal of it",
        )
    )


def require_consent(stack: Stack, resources: int) -> None:
    """Ask a person at a terminal whether the stack on a real cluster is to be destroyed.

    Without a terminal nothing is asked, so that scripts can destroy a stack.

    Args:
        stack: The stack that is about to be destroyed.
        resources: Number of resources in its state.

    Raises:
        FaultError: The answer is not the stack's name. Nothing was changed.
    """
    if stack.embedded or not asks():
        return
    context = printable(stack.cluster.kubernetes.context)
    question = f"destroy {resources} resources of the cluster {context}? Type {stack.name}: "
    try:
        typed_name = input(question).strip()
    except EOFError:
        typed_name = ""
    if typed_name != stack.name:
        wanted = f"{stack.name}, the name of the stack"
        raise FaultError(
            Fault(
                "the answer",
                show(typed_name),
                wanted,
                "run again and type this name; nothing was destroyed",
            )
        )


def asks() -> bool:
    """Return True if a person can answer questions."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("JSON") != "1"


def require_own_state(stack: Stack) -> None:
    """Check that a command with ``--embedded`` does not change the state of the real stack.

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
                f"stack {stack.name} --embedded",
                "PULUMI_BACKEND_URL, whose backend may hold the real stack",
                "the state of the embedded cluster",
                "unset PULUMI_BACKEND_URL; to change the real stack, leave --embedded out",
            )
        )
