"""Access to the lab (`lab/`), which is imported only for stacks on an embedded cluster.

Commands for a stack on a real cluster run without the lab's simulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpu_cluster.commands.stack import Stack

if TYPE_CHECKING:
    from gpu_cluster.commands.embedded_cluster import EmbeddedCluster


def embedded_cluster(stack: Stack) -> EmbeddedCluster | None:
    """Return the embedded cluster that the stack runs on; None if it runs on a real cluster."""
    if not stack.embedded:
        return None
    from gpu_cluster.commands.embedded_cluster import EmbeddedCluster

    return EmbeddedCluster(stack)
