"""Differences between nodes, their desired settings and their last applied settings.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.findings import EMPTY, Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.applied import Applied, applied, every
from gpu_cluster.nodes.inspect import advertised, node_name
from gpu_cluster.nodes.record import decode


@dataclass(frozen=True, kw_only=True)
class PoolGpus:
    """Numbers of GPUs in a pool, without the nodes in maintenance.

    Attributes:
        before: Number of GPUs last applied to the pool's nodes. None: the nodes were not inspected.
        after: Desired number of GPUs.
    """

    pool: str
    before: int | None
    after: int


@dataclass(frozen=True, kw_only=True)
class RestingGpus:
    """Number of GPUs of the nodes in maintenance.

    Attributes:
        before: Number of GPUs last applied to the nodes, or with which they were validated.
        after: Number of GPUs that the stack file declares for the nodes.
    """

    before: int
    after: int


@dataclass(frozen=True, kw_only=True)
class NodeGpus:
    """Pool and number of GPUs of a node, before and after the run.

    Attributes:
        was: Pool that was last applied to the node. Empty: no pool was applied.
        pool: Desired pool of the node. Empty: no pool of the stack declares the node.
        before: Number of GPUs last applied to the node.
        after: Desired number of GPUs.
        advertised: Amount of each GPU resource that the node advertises now.
    """

    node: str
    was: str
    pool: str
    before: int
    after: int
    advertised: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SchedulingDifference:
    """Findings about the scheduling settings of nodes.

    Attributes:
        pools: Findings by pool, including pools that are no longer declared.
        gpus: Number of GPUs of each pool with GPUs, before and after the run.
        nodes: Pool and GPUs of each node that is or was in a pool, before and after the run.
        resting: GPUs of the nodes in maintenance. None: the nodes were not inspected.
    """

    pools: Mapping[str, Findings] = field(default_factory=dict)
    gpus: tuple[PoolGpus, ...] = ()
    nodes: tuple[NodeGpus, ...] = ()
    resting: RestingGpus | None = None

    @property
    def findings(self) -> Findings:
        """Return the findings of all pools."""
        return tuple(finding for pool_findings in self.pools.values() for finding in pool_findings)


def compare(
    nodes: Sequence[Json],
    members: Mapping[str, Sequence[Json]],
    pools: Sequence[PoolScheduling],
    by_rule: Mapping[str, int],
) -> SchedulingDifference:
    """Compare nodes with their desired settings and with their last applied settings.

    Args:
        nodes: All nodes of the cluster.
        members: Nodes of each pool whose nodes are all in the cluster.
        pools: Desired settings of the pools.
        by_rule: Pools whose nodes Node Feature Discovery labels, with the number of GPUs in the
            validation records of their nodes; no other record of these nodes exists.
    """
    findings: dict[str, list[Finding]] = {}
    for pool in pools:
        if pool.pool not in by_rule:
            for node in members.get(pool.pool, ()):
                findings.setdefault(pool.pool, []).extend(_compare_node(node, pool))
    stack = next((pool.stack for pool in pools), "")
    resting = {name for pool in pools for name in pool.maintenance}
    records = [
        (node_name(node), record)
        for node in nodes
        if node_name(node) not in resting
        for record in every(node, stack)
    ]
    unseen = {pool.pool for pool in pools} - members.keys()
    memberships = {
        (pool, node_name(node)) for pool, pool_nodes in members.items() for node in pool_nodes
    }
    for name, record in records:
        if record.pool not in unseen and (record.pool, name) not in memberships:
            findings.setdefault(record.pool, []).append(_left_pool_finding(name, record))
    return SchedulingDifference(
        pools={pool: tuple(of_pool) for pool, of_pool in findings.items() if of_pool},
        gpus=tuple(_count_pool_gpus(nodes, pools, [record for _, record in records], by_rule)),
        nodes=tuple(_compare_members(nodes, members, pools, records, by_rule)),
        resting=_count_resting(nodes, pools, resting, stack),
    )


def _count_resting(
    nodes: Collection[Json], pools: Sequence[PoolScheduling], names: Collection[str], stack: str
) -> RestingGpus:
    """Return the GPUs of nodes in maintenance; a node that is not in the cluster had none.

    Args:
        names: Names of the nodes in maintenance.
    """
    before = 0
    for node in nodes:
        if node_name(node) in names:
            validation = decode(node)
            applied_gpus = sum(each.gpus for each in every(node, stack))
            before += applied_gpus or (validation.declared if validation else 0)
    return RestingGpus(before=before, after=declared_resting(pools, nodes))


def declared_resting(pools: Iterable[PoolScheduling], nodes: Collection[Json] = ()) -> int:
    """Return the number of GPUs that the stack file declares for nodes in maintenance.

    Args:
        pools: Declared labels and GPUs of each pool.
        nodes: Node objects, of which pools select some by label. Empty: only named nodes count.
    """
    return sum(
        pool.gpus_of(name)
        for pool in pools
        for name in (pool.maintenance if pool.nodes is not None else _selected_resting(nodes, pool))
    )


def _selected_resting(nodes: Iterable[Json], pool: PoolScheduling) -> list[str]:
    """Return the nodes in maintenance that a pool selects by label."""
    return [
        node_name(node)
        for node in nodes
        if node_name(node) in pool.maintenance
        and pool.selector.items() <= (node["metadata"].get("labels") or {}).items()
    ]


def _compare_members(
    nodes: Sequence[Json],
    members: Mapping[str, Sequence[Json]],
    pools: Sequence[PoolScheduling],
    records: Sequence[tuple[str, Applied]],
    by_rule: Collection[str],
) -> Iterator[NodeGpus]:
    """Yield the nodes that are or were in a pool, except those of pools in `by_rule`.

    Nodes of a pool whose members are not known are left out: nobody knows whether they stay.
    """
    unseen = {pool.pool for pool in pools} - members.keys()
    before = {name: record for name, record in records}
    after = {
        node_name(node): pool
        for pool in pools
        if pool.pool not in by_rule
        for node in members.get(pool.pool, ())
    }
    for node in nodes:
        name = node_name(node)
        record, pool = before.get(name), after.get(name)
        if pool is None and (record is None or record.pool in unseen):
            continue
        yield NodeGpus(
            node=name,
            was=record.pool if record else "",
            pool=pool.pool if pool else "",
            before=record.gpus if record else 0,
            after=pool.gpus_of(name) if pool else 0,
            advertised=advertised(node),
        )


def declared_gpus(pools: Iterable[PoolScheduling]) -> SchedulingDifference:
    """Return findings without any inspected node: only the pools' desired numbers of GPUs."""
    return SchedulingDifference(
        gpus=tuple(
            PoolGpus(pool=pool.pool, before=None, after=_count_gpus_after((), pool))
            for pool in pools
            if pool.gpus
        )
    )


def _count_pool_gpus(
    nodes: Sequence[Json],
    pools: Sequence[PoolScheduling],
    records: Sequence[Applied],
    by_rule: Mapping[str, int],
) -> Iterator[PoolGpus]:
    before = dict(by_rule)
    for record in records:
        before[record.pool] = before.get(record.pool, 0) + record.gpus
    after = {pool.pool: _count_gpus_after(nodes, pool) for pool in pools}
    for pool in dict.fromkeys((*after, *sorted(before))):
        if before.get(pool) or after.get(pool):
            yield PoolGpus(pool=pool, before=before.get(pool, 0), after=after.get(pool, 0))


def _count_gpus_after(nodes: Collection[Json], pool: PoolScheduling) -> int:
    if pool.nodes is not None:
        return sum(pool.gpus_of(name) for name in pool.nodes)
    return (pool.count - len(_selected_resting(nodes, pool))) * pool.gpus


def _compare_node(node: Json, pool: PoolScheduling) -> Iterator[Finding]:
    name, record = node_name(node), applied(node, pool.pool)
    if record is None:
        record = _former_record(node, pool)
        yield Finding(
            kind=Kind.CHANGE,
            subject=Subject.NODE,
            name=name,
            aspect=Aspect.POOL,
            now=pool.pool,
            first=record is None,
        )
    if record is None:
        return
    if record.gpus != pool.gpus_of(name):
        was, now = str(record.gpus), str(pool.gpus_of(name))
        yield Finding(Kind.CHANGE, Subject.NODE, name, Aspect.GPUS, "", was, now)
    desired = pool.of_node(name)
    labels = node["metadata"].get("labels") or {}
    yield from _compare_values(name, Aspect.LABEL, record.labels, desired.labels, labels)
    taints = [*map(_by_key, (record.taints, desired.taints, node["spec"].get("taints") or []))]
    if record.unfinished:
        yield Finding(Kind.CHANGE, Subject.NODE, name, Aspect.TAINTS, "", "begun", "applied")
        taints[2] = taints[0]
    yield from _compare_values(name, Aspect.TAINT, *taints)


def _former_record(node: Json, pool: PoolScheduling) -> Applied | None:
    """Return the record that another pool of the stack left on the node, or None."""
    return next((record for record in every(node, pool.stack) if record.pool != pool.pool), None)


def _compare_values(
    node: str,
    aspect: Aspect,
    recorded: Mapping[str, str],
    desired: Mapping[str, str],
    observed: Mapping[str, str],
) -> Iterator[Finding]:
    """Yield changes from the stack file, then drift: values that somebody else changed.

    A value that already equals the desired value is not reported as drift.
    """
    for key in dict.fromkeys((*recorded, *desired)):
        if recorded.get(key) != desired.get(key):
            was, now = _shown_value(recorded.get(key)), _shown_value(desired.get(key))
            yield Finding(Kind.CHANGE, Subject.NODE, node, aspect, key, was, now)
    for key, value in recorded.items():
        if observed.get(key) not in (value, desired.get(key)):
            was, now = _shown_value(value), _shown_value(observed.get(key))
            yield Finding(Kind.DRIFT, Subject.NODE, node, aspect, key, was, now)


def _shown_value(value: str | None) -> str:
    return EMPTY if value == "" else value or ""


def _by_key(taints: Iterable[Json]) -> dict[str, str]:
    """Return the values of taints by key and effect, which together identify a taint."""
    return {f"{taint['key']}:{taint['effect']}": taint.get("value") or "" for taint in taints}


def _left_pool_finding(node: str, record: Applied) -> Finding:
    gpus = f", {record.gpus} GPUs" if record.gpus else ""
    return Finding(Kind.CHANGE, Subject.NODE, node, Aspect.POOL, "", f"{record.pool}{gpus}", "")
