"""Access to the package `gpu_cluster_lab`, which is imported only for stacks on embedded clusters.

Commands for a stack on a real cluster run without the lab's simulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_cluster.commands.stack import Stack
from gpu_cluster.commands.tools import has_lab
from gpu_rules.faults import Fault, FaultError

if TYPE_CHECKING:
    from gpu_cluster.commands.embedded_cluster import EmbeddedCluster


def embedded_cluster(stack: Stack) -> EmbeddedCluster | None:
    """Return the embedded cluster that the stack runs on; None if it runs on a real cluster.

    Raises:
        FaultError: The package with the embedded cluster is not installed.
    """
    if not stack.embedded:
        return None
    if not has_lab():
        raise FaultError(
            Fault(
                f"stack {stack.name}",
                f"context {stack.cluster.kubernetes.context}, that of an embedded cluster"
                if not stack.is_fake
                else "--embedded",
                "the package gpu-cluster-lab, which has the embedded cluster",
                "install its wheel, from the release that gpu-cluster is from, in this environment",
            )
        )
    from gpu_cluster.commands.embedded_cluster import EmbeddedCluster

    return EmbeddedCluster(stack)
