"""Start-up taint, which keeps pods off a new node until each of its GPUs has run a kernel.

A node gets the taint when it is first seen, and only if no pod uses its GPUs. A node in use gets no
taint; the GPUs that its pods hold are validated later.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.kubernetes.api import Client, Json
from gpu_cluster.nodes import gpu_holders, record
from gpu_cluster.nodes.inspect import node_name
from gpu_cluster.nodes.taints import write_taints
from gpu_cluster.settings.nodes.taint import STARTUP_TAINT
from gpu_rules.kube.taints import NodeTaint

TAINT = {"key": STARTUP_TAINT.key, "effect": str(STARTUP_TAINT.effect)}
MANAGER = "gpu-cluster-startup"


def has_startup_taint(node: Json) -> bool:
    """Return whether a node has the start-up taint."""
    taints = map(NodeTaint.of, node["spec"].get("taints") or [])
    return any(taint.is_same(STARTUP_TAINT.node_taint) for taint in taints)


async def nodes_to_close(client: Client, nodes: list[Json], pool: PoolScheduling) -> set[str]:
    """Return the names of the nodes that get the start-up taint.

    These are the nodes that no run has validated and whose GPUs no pod uses.
    """
    new = [node for node in nodes if not (has_startup_taint(node) or record.decode(node))]
    names = [node_name(node) for node in new]
    holders = await gpu_holders.holders_by_node(client, names, pool.resources, pool.namespace)
    return {name for name in names if not any(holder.amounts for holder in holders[name])}


async def remove_startup_taint(client: Client, node: Json, annotations: Mapping[str, str]) -> None:
    """Remove the start-up taint of a node, and write annotations in the same request."""
    await write_taints(client, node, lambda _: [TAINT], [], MANAGER, annotations)
