"""What the rules need to know, from the cluster that a stack declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.rules import Context, Pool, Taint

if TYPE_CHECKING:
    from config import Cluster


def context_of(cluster: Cluster) -> Context:
    """The pools and the platform of a stack's `gpu-cluster:cluster`."""
    pools = tuple(
        Pool(
            name=pool.name,
            gpus_per_node=pool.gpus_per_node,
            taints=tuple(Taint(each.key, each.value, str(each.effect)) for each in pool.taints),
            labels=dict(pool.labels),
        )
        for pool in cluster.pools
    )
    return Context(pools=pools, platform=str(cluster.platform))
