"""New nodes take no pods until each of their GPUs ran a kernel.

A node is closed when it is first seen, and only where no pod uses its GPUs: one that works stays
open, and what its pods hold is validated when they are gone.
"""

from __future__ import annotations

from components.desired.pool import PoolScheduling
from components.kubernetes.api import Client, Json
from components.nodes import gpu_holders, record
from components.nodes.taints import write_taints
from components.settings.nodes.taint import STARTUP_TAINT

TAINT = {"key": STARTUP_TAINT.key, "effect": str(STARTUP_TAINT.effect)}
MANAGER = "gpu-cluster-startup"


def has_startup_taint(node: Json) -> bool:
    """Whether a node waits for its validation."""
    return any(taint["key"] == TAINT["key"] for taint in node["spec"].get("taints") or [])


async def add_startup_taint(client: Client, node: Json, pool: PoolScheduling) -> None:
    """Closes a node that no run has seen, unless a pod uses its GPUs.

    Args:
        client: of the cluster.
        node: the Node.
        pool: the node's pool.
    """
    if has_startup_taint(node) or record.decode(node):
        return
    name = node["metadata"]["name"]
    holders = await gpu_holders.holders(client, name, pool.resources, pool.namespace)
    if not any(holder.amounts for holder in holders):
        await write_taints(client, node, [], [TAINT], MANAGER)


async def remove_startup_taint(client: Client, node: Json) -> None:
    """Opens a node whose GPUs all ran a kernel."""
    if has_startup_taint(node):
        await write_taints(client, node, [TAINT], [], MANAGER)
