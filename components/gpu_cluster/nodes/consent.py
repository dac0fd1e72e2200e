"""Fault for pods that can't be evicted without a loss to which nobody has consented."""

from __future__ import annotations

from gpu_rules.faults import Fault


def refused_loss(node: str, lost: str) -> Fault:
    """Return the fault about a node's pods that would lose data or not be created again.

    Args:
        lost: The pods, and what each of them would lose.
    """
    return Fault(
        f"node {node}",
        lost,
        "no pod that loses data or isn't created again, unless you accept it",
        "delete these pods yourself, or let the run delete them: in rollout.evict of the stack "
        "file, write unmanaged for pods that nothing creates again, and empty-dir for pods that "
        "lose their emptyDir volumes",
    )
