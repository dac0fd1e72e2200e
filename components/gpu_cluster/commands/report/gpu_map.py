"""Determine the state of each GPU of a stack from Node objects. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpu_cluster.desired.pool import DesiredScheduling
from gpu_cluster.desired.validation import DesiredValidation, PoolValidation
from gpu_cluster.kubernetes.api import ClusterError, Json
from gpu_cluster.nodes import record
from gpu_cluster.nodes.inspect import cordoned_by_others, gpus, pool_members
from gpu_cluster.validation.node_result import instances
from gpu_rules.printable import printable


class State(StrEnum):
    """State of a GPU.

    - `computed`: the GPU ran a kernel.
    - `simulated`: a simulator pretended that the GPU ran a kernel.
    - `deferred`: a pod uses the GPU, so its validation waits.
    - `advertised`: pods can request the GPU, but no kernel ran on it.
    - `declared`: the stack file declares the GPU, and the node does not advertise it.
    - `unhealthy`: the node no longer lists the GPU as allocatable, or the stack file excludes it.
    - `maintenance`: the node is in maintenance.
    """

    COMPUTED = "computed"
    SIMULATED = "simulated"
    DEFERRED = "deferred"
    ADVERTISED = "advertised"
    DECLARED = "declared"
    UNHEALTHY = "unhealthy"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, kw_only=True)
class NodeGpus:
    """GPUs of one node.

    Attributes:
        gpus: Number of GPUs by state; states without a GPU are left out.
        shares: Number of containers that can share a GPU; 1 if none can.
        parts: Number of MIG devices of a GPU; 0 if GPUs are not partitioned.
        held: Pods that use the deferred GPUs. Empty: no GPU is deferred.
        since: Time of the last validation. Empty: the node has no valid validation record.
        note: Remark: `cordoned`, `in maintenance` or `not in the cluster`. Empty: no remark.
    """

    name: str
    gpus: tuple[tuple[State, int], ...] = ()
    shares: int = 1
    parts: int = 0
    held: str = ""
    since: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class PoolGpus:
    """GPUs of one pool.

    Attributes:
        name: Name of the pool.
        nodes: Nodes of the pool, in the order of the stack file.
        problem: Why the pool's nodes are not known. Empty: the nodes are known.
    """

    name: str
    nodes: tuple[NodeGpus, ...] = ()
    problem: str = ""


def totals(nodes: Iterable[NodeGpus]) -> dict[State, int]:
    """Return the number of GPUs in each state."""
    numbers_of_states = dict.fromkeys(State, 0)
    for node in nodes:
        for state, number in node.gpus:
            numbers_of_states[state] += number
    return numbers_of_states


def pools_of(
    scheduling: DesiredScheduling,
    validation: DesiredValidation,
    nodes: Sequence[Json],
    resting: Mapping[str, str],
) -> tuple[PoolGpus, ...]:
    """Return the GPUs of each pool with GPUs, in the order of the stack file.

    Args:
        scheduling: Nodes of the stack's pools.
        validation: GPUs of the stack's pools.
        nodes: Node objects of the cluster, with DRA devices counted
            (`gpu_cluster.nodes.inspect.count_devices`).
        resting: Nodes in maintenance, each with its pool.
    """
    by_name = {str(node["metadata"]["name"]): node for node in nodes}
    whole = {pool.pool: pool for pool in scheduling.pools}
    cordoned = frozenset(cordoned_by_others(list(nodes)))
    nodes_of_pools: dict[str, list[NodeGpus]] = {}
    problems: dict[str, str] = {}
    for pool_validation in validation.pools:
        names = [*pool_validation.nodes] if pool_validation.nodes is not None else []
        if pool_validation.nodes is None:
            try:
                names = [
                    node["metadata"]["name"] for node in pool_members([*nodes], pool_validation)
                ]
            except ClusterError as error:
                problems[pool_validation.pool] = printable(str(error))
        for name in names:
            pool = validation.pool_of.get(name, pool_validation.pool)
            excluded = whole[pool].gpus - pool_validation.gpus if pool in whole else 0
            node_gpus = _of_node(
                pool_validation, name, by_name.get(name), excluded, name in cordoned
            )
            nodes_of_pools.setdefault(pool, []).append(node_gpus)
    for name, pool in resting.items():
        if pool in whole and whole[pool].gpus:
            nodes_of_pools.setdefault(pool, []).append(_resting(name, whole[pool].gpus))
    return tuple(
        PoolGpus(
            name=name, nodes=tuple(nodes_of_pools.get(name, ())), problem=problems.get(name, "")
        )
        for name in whole
        if name in nodes_of_pools or name in problems
    )


def _resting(name: str, count: int) -> NodeGpus:
    return NodeGpus(name=printable(name), gpus=((State.MAINTENANCE, count),), note="in maintenance")


def _of_node(
    pool: PoolValidation, name: str, node: Json | None, excluded: int, cordoned: bool
) -> NodeGpus:
    """Return the GPUs of one node.

    Args:
        node: The Node; None if the cluster does not have it.
        excluded: Number of GPUs that the stack file excludes.
        cordoned: Whether somebody else cordoned the node.
    """
    shown_name = printable(name)
    if node is None:
        absent = _states({State.DECLARED: pool.gpus, State.UNHEALTHY: excluded})
        return NodeGpus(name=shown_name, gpus=absent, note="not in the cluster")
    recorded = record.decode(node) or record.ValidationRecord()
    withdrawn = _gpus(pool, _amounts(pool, node, "capacity")) - _advertised(pool, node)
    unhealthy = min(pool.gpus, max(0, withdrawn))
    advertised = min(_advertised(pool, node), pool.gpus - unhealthy)
    ran = min(recorded.gpus(instances(pool)), advertised)
    deferred = advertised - ran if recorded.missing and recorded.held else 0
    numbers = {
        State.SIMULATED if recorded.simulated else State.COMPUTED: ran,
        State.DEFERRED: deferred,
        State.ADVERTISED: advertised - ran - deferred,
        State.DECLARED: pool.gpus - unhealthy - advertised,
        State.UNHEALTHY: unhealthy + excluded,
    }
    return NodeGpus(
        name=shown_name,
        gpus=_states(numbers),
        shares=_shares(pool),
        parts=instances(pool),
        held=printable(recorded.held) if deferred else "",
        since=printable(recorded.since, 40) if ran else "",
        note="cordoned" if cordoned else "",
    )


def _states(numbers: Mapping[State, int]) -> tuple[tuple[State, int], ...]:
    return tuple((state, number) for state, number in numbers.items() if number > 0)


def _amounts(pool: PoolValidation, node: Json, kind: str) -> Iterator[tuple[int, int]]:
    """Yield a node's amount of each GPU resource of the pool, and the pool's declared amount."""
    for offer in pool.offers:
        yield min(gpus(node, kind, offer.resource), offer.count), offer.count


def _gpus(pool: PoolValidation, amounts: Iterable[tuple[int, int]]) -> int:
    """Convert amounts of resources to a number of whole GPUs, rounded down."""
    pairs = list(amounts)
    declared = sum(count for _, count in pairs)
    return (
        math.floor(pool.gpus * sum(present for present, _ in pairs) / declared) if declared else 0
    )


def _advertised(pool: PoolValidation, node: Json) -> int:
    return _gpus(pool, _amounts(pool, node, "allocatable"))


def _shares(pool: PoolValidation) -> int:
    """Return how many containers can share a device; 1 if none can."""
    return max((offer.count // (offer.devices * offer.unit) for offer in pool.offers), default=1)
