"""The amount of a GPU resource that pools have, for rules in Python and in CEL."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...context import Context, Mig, PoolFacts
from ...kube.gpu_resources import GPU, GPU_SHARED, VCUDA_CORE
from .. import cel
from ..pod_request import CLAIMED

# Number of vcuda-cores into which gpu-manager divides each GPU.
CORES = 100


def per_node(pool: PoolFacts, resource: str, context: Context) -> int | None:
    """Return the amount of a resource that each node of a pool advertises, or None if not known."""
    plugin = context.plugin
    if "/" not in resource and resource != CLAIMED:
        # A name without a slash is that of a DeviceClass in a claim. The number of MIG devices on a
        # node is not known, because MIG devices are parts of GPUs.
        return None if "mig" in resource else pool.gpus_per_node
    if resource == VCUDA_CORE:
        return pool.gpus_per_node * CORES
    if resource not in (GPU, GPU_SHARED) or (plugin and plugin.mig is not Mig.NONE):
        return None
    if plugin is None:
        return pool.gpus_per_node if resource == GPU else None
    renamed = GPU_SHARED if plugin.renamed else GPU
    return pool.gpus_per_node * plugin.replicas if resource == renamed else None


def room_of(pools: Sequence[PoolFacts], resource: str, context: Context) -> int | None:
    """Return the amount of a resource that all given pools have together, or None if not known."""
    total = 0
    for pool in pools:
        size = per_node(pool, resource, context)
        if size is None or pool.nodes is None:
            return None
        total += size * pool.nodes
    return total if pools else None


def sizes_cel(key: str) -> str:
    """Return CEL for the amounts of a resource in the pools that a pod can be scheduled to.

    Pools whose amount is not known are left out.
    """
    return (
        f'variables.pools.filter(p, (p + ".{key}") in variables.facts)'
        f'.map(p, int(variables.facts[p + ".{key}"]))'
    )


def each_resource_cel(function: Callable[[str, str], str]) -> str:
    """Return CEL that concatenates the CEL lists that a function returns for each GPU resource."""
    return " + ".join(function(key, name) for key, name in cel.NAMES.items())
