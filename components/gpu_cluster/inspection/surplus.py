"""Find nodes that advertise GPUs which the changed stack file doesn't declare. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_cluster.desired.validation import DesiredValidation, PoolValidation
from gpu_cluster.nodes.difference import NodeGpus
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster.settings.nodes.pool import Pool
from gpu_rules.faults import Fault
from gpu_rules.printable import counted, shortened

NAMED = 5
"""Maximum number of groups of nodes that a message names."""


def faults(
    nodes: Iterable[NodeGpus], validation: DesiredValidation, pools: Iterable[Pool]
) -> Iterator[Fault]:
    """Yield a fault for nodes that keep advertising GPUs that are no longer declared.

    The validation would wait for the declared number until its time limit, and fail. A run takes
    GPUs out of a node only if `unhealthyDevices` names them by index or UUID.

    Args:
        nodes: Pool and GPUs of each node, before and after the run.
        validation: Pools with GPUs.
        pools: Pools of the stack file.
    """
    drained_nodes = {
        node
        for pool in pools
        for node, devices in pool.unhealthy_devices.items()
        if devices.index or devices.uuid
    }
    by_node = {name: pool_part for pool_part in validation.pools for name in pool_part.nodes or ()}
    by_pool = {
        pool_part.pool: pool_part for pool_part in validation.pools if pool_part.nodes is None
    }
    nodes_by_change: dict[tuple[str, int, int], list[str]] = {}
    for node in nodes:
        node_part = by_node.get(node.node) or by_pool.get(node.pool)
        if node_part and node.node not in drained_nodes and _keeps_share(node, node_part):
            nodes_by_change.setdefault((node.pool, node.before, node.after), []).append(node.node)
    for (pool, before, after), names in nodes_by_change.items():
        yield Fault(
            f"pool {pool}",
            f"{counted(after, 'GPU')} per node declared, while "
            f"{shortened([*ranges(names)], NAMED)} advertise{'' if names[1:] else 's'} {before}",
            "the number that the nodes advertise: gpusPerNode takes no GPU out of a node, so the "
            f"nodes would go on advertising {before}, and a run would wait for {after} until its "
            "time limit and fail",
            f"declare {before} again; to exclude GPUs, name them in unhealthyDevices by index or "
            "uuid; if a GPU is gone, delete the pod of the node's device plugin, which still "
            "counts it",
        )


def _keeps_share(node: NodeGpus, pool_part: PoolValidation) -> bool:
    """Return whether the node would advertise as many devices per GPU as now, on more GPUs."""
    return node.after < node.before and any(
        node.advertised.get(name, 0) > amount
        and node.advertised[name] * node.after == amount * node.before
        for name, amount in pool_part.resources.items()
    )
