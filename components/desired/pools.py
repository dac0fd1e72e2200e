"""Pools: their taints and tolerations, the nodes in maintenance, and how they are counted."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from components.kubernetes.resources import LAYOUTS
from components.settings.nodes.pool import Pool, gpu_pools
from components.settings.nodes.taint import Taint

Json = dict[str, Any]


def manager(stack: str, pool: Pool) -> str:
    """Field manager of a pool's labels: fixed, so that every later run owns the same fields."""
    return f"gpu-cluster-{stack}-{pool.name}"


def layouts_manager(stack: str) -> str:
    """Field manager of the label that names a node's MIG layout."""
    return f"gpu-cluster-{stack}{LAYOUTS}"


def working_nodes(pool: Pool, maintenance: Collection[str]) -> int:
    """Return how many nodes a pool has without those in maintenance that it names."""
    return pool.size - sum(name in maintenance for name in pool.node_names())


def working_gpus(pool: Pool, maintenance: Collection[str]) -> int:
    """Return the GPUs that a pool by name advertises, without those of nodes in maintenance."""
    left_out = {node: devices.count for node, devices in pool.unhealthy_devices.items()}
    resting = (name for name in pool.node_names() if name in maintenance)
    return pool.gpus - sum(pool.gpus_per_node - left_out.get(name, 0) for name in resting)


#: Label of a pool's nodes where objects of the platform select them.
POOL_LABEL = "gpu-cluster/pool"


def plain_taints(taints: tuple[Taint, ...]) -> list[dict[str, str]]:
    """Taints as the API server writes them: no key with an empty value."""
    return [
        {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "effect": str(taint.effect),
        }
        for taint in taints
    ]


def counted_pools(declared: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """Return the pools with GPUs as they are counted: all nodes of each advertise the same.

    Nodes with GPUs left out become pools of their own.
    """
    pools: list[Pool] = []
    for pool in gpu_pools(declared):
        left_out = {node: devices.count for node, devices in pool.unhealthy_devices.items()}
        by_count: dict[int, list[str]] = {}
        for node in pool.node_names():
            by_count.setdefault(pool.gpus_per_node - left_out.get(node, 0), []).append(node)
        if not left_out:
            pools.append(pool)
            continue
        for gpus, nodes in sorted(by_count.items(), reverse=True):
            name = pool.name if gpus == pool.gpus_per_node else f"{pool.name}-x{gpus}"
            part = {"name": name, "nodes": tuple(nodes), "gpus_per_node": gpus}
            pools.append(pool.model_copy(update={**part, "unhealthy_devices": {}}))
    return tuple(pools)
