"""What the cluster side is asked to do for each pool: plain documents, from the configuration.

The same documents are the input of the operations and of the inspection, so
that what is declared, what is done and what is checked can't differ.
"""

from __future__ import annotations

from typing import Any

from components.nodes.resources import LAYOUTS, MIG_LABEL
from components.nodes.settings.pool import Pool, gpu_pools
from components.nodes.settings.taint import Taint
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster

Json = dict[str, Any]


def manager(stack: str, pool: Pool) -> str:
    """Field manager of a pool's labels: fixed, so that every later run owns the same fields."""
    return f"gpu-cluster-{stack}-{pool.name}"


def layouts_manager(stack: str) -> str:
    """Field manager of the label that names a node's MIG layout."""
    return f"gpu-cluster-{stack}{LAYOUTS}"


def members_document(cluster: Cluster, pool: Pool) -> Json:
    """What names a pool's nodes to an operation."""
    members: Json = {"context": cluster.kubernetes.context, "pool": pool.name}
    if out := resting(cluster, pool):
        members["maintenance"] = out
    if pool.nodes is not None:
        return {**members, "nodes": [name for name in pool.node_names() if name not in out]}
    return {**members, "selector": dict(pool.selector or {}), "count": pool.size}


def resting(cluster: Cluster, pool: Pool) -> list[str]:
    """Nodes in maintenance that are a pool's; of one by selector those that may be."""
    out = cluster.nodes_in_maintenance
    if pool.nodes is not None:
        return [name for name in pool.node_names() if name in out]
    named = {name for declared in cluster.pools for name in declared.node_names()}
    return sorted(out - named)


def working_nodes(cluster: Cluster, pool: Pool) -> int:
    """How many nodes a pool has without those in maintenance that it names."""
    return pool.size - (len(resting(cluster, pool)) if pool.nodes is not None else 0)


def working_gpus(cluster: Cluster, pool: Pool) -> int:
    """GPUs that a pool by name offers together, without nodes in maintenance."""
    left_out = {node: devices.count for node, devices in pool.unhealthy_devices.items()}
    resting_gpus = (pool.gpus_per_node - left_out.get(n, 0) for n in resting(cluster, pool))
    return pool.gpus - sum(resting_gpus)


#: Label of a pool's nodes where objects of the platform select them.
POOL_LABEL = "gpu-cluster/pool"


def labels(cluster: Cluster, pool: Pool) -> dict[str, str]:
    """Labels of a pool's nodes: the declared ones, and what the platform needs to find them."""
    declared = dict(pool.labels)
    if not pool.gpus_per_node:
        return declared
    platform = platform_of(cluster)
    declared = {**platform.labels(pool), **declared}
    if platform.layouts:
        declared.pop(MIG_LABEL, None)  # it goes in waves (`components.rollout.layouts`)
    if cluster.driver.managed_by_daemonset and pool.selector is None:
        declared[POOL_LABEL] = pool.name
    return declared


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


def validated_pools(cluster: Cluster) -> tuple[Pool, ...]:
    """Pools with GPUs, as they are counted: nodes with GPUs left out are pools of their own.

    All nodes of a document offer the same.
    """
    pools: list[Pool] = []
    for pool in gpu_pools(cluster.pools):
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


def _handed_over(cluster: Cluster, stack: str) -> Json:
    """Labels that former releases set here, and who holds them now."""
    if not platform_of(cluster).layouts:
        return {}
    return {"handsOver": {MIG_LABEL: layouts_manager(stack)}}


def scheduling_document(cluster: Cluster, pool: Pool, stack: str) -> Json:
    """Input of ``components.nodes.schedule`` for one pool."""
    by_itself = cluster.scheduling.nodes
    return {
        **members_document(cluster, pool),
        "manager": manager(stack, pool),
        "labels": labels(cluster, pool),
        "taints": plain_taints(pool.taints),
        "closes": pool.starts_closed,
        **_handed_over(cluster, stack),
        "resources": [
            offer.resource for offer in platform_of(cluster).offers(pool) if pool.starts_closed
        ],
        "namespace": cluster.validation.namespace,
        "byItself": {
            name: {
                "labels": dict(by_itself[name].labels),
                "taints": plain_taints(by_itself[name].taints),
            }
            for name in pool.node_names()
            if name in by_itself
        },
    }
