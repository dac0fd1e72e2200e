"""Start-up taint, which keeps pods off a new node until each of its GPUs has run a kernel.

A node gets the taint when it is first seen, and only if no pod uses its GPUs. A node in use gets no
taint; the GPUs that its pods hold are validated later.
"""

from __future__ import annotations

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.nodes import gpu_holders, record
from gpu_cluster.nodes.taints import write_taints
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from gpu_rules.kube.taints import NodeTaint

TAINT = {"key": STARTUP_TAINT.key, "effect": str(STARTUP_TAINT.effect)}
MANAGER = "gpu-cluster-startup"


def has_startup_taint(node: Json) -> bool:
    """Return whether a node has the start-up taint."""
    taints = map(NodeTaint.of, node["spec"].get("taints") or [])
    return any(taint.is_same(STARTUP_TAINT.node_taint) for taint in taints)


async def add_startup_taint(client: Client, node: Json, pool: PoolScheduling) -> None:
    """Add the start-up taint to a node that no run has validated, unless a pod uses its GPUs."""
    if has_startup_taint(node) or record.decode(node):
        return
    name = node["metadata"]["name"]
    holders = await gpu_holders.holders(client, name, pool.resources, pool.namespace)
    if not any(holder.amounts for holder in holders):
        await write_taints(client, node, lambda _: [], [TAINT], MANAGER)


async def remove_startup_taint(client: Client, node: Json) -> None:
    """Remove the start-up taint of a node."""
    if has_startup_taint(node):
        await write_taints(client, node, lambda _: [TAINT], [], MANAGER)
