"""How much of a resource pools have, for rules and twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import cel
from ..context import Context, Mig, PoolFacts
from ..resource_names import (
    GPU,
    GPU_SHARED,
    VCUDA_CORE,
)

CORES = 100  # gpu-manager divides each GPU into as many


def per_node(pool: PoolFacts, resource: str, context: Context) -> int | None:
    """How much of a resource a node of a pool advertises, `None` where that is not known."""
    plugin = context.plugin
    if resource == VCUDA_CORE:
        return pool.gpus_per_node * CORES
    if resource not in (GPU, GPU_SHARED) or (plugin and plugin.mig is not Mig.NONE):
        return None
    if plugin is None:
        return pool.gpus_per_node if resource == GPU else None
    renamed = GPU_SHARED if plugin.renamed else GPU
    return pool.gpus_per_node * plugin.replicas if resource == renamed else None


def room_of(pools: Sequence[PoolFacts], resource: str, context: Context) -> int | None:
    """How much of a resource the pools have together, `None` where that is not known."""
    total = 0
    for pool in pools:
        size = per_node(pool, resource, context)
        if size is None or pool.nodes is None:
            return None
        total += size * pool.nodes
    return total if pools else None


def sizes_cel(key: str) -> str:
    """What the pools that the pod may go to have of a resource, where that is known."""
    return (
        f'variables.pools.filter(p, (p + ".{key}") in params.data)'
        f'.map(p, int(params.data[p + ".{key}"]))'
    )


def each_resource_cel(function: Callable[[str, str], str]) -> str:
    return " + ".join(function(key, name) for key, name in cel.NAMES.items())
