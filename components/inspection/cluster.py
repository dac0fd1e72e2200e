"""One read-only look at the cluster: what is missing, what differs from what is declared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from components.charts.reach import unreachable
from components.desired.pool import PoolScheduling
from components.desired.question import Question
from components.desired.validation import PoolValidation
from components.kubernetes import grammar
from components.kubernetes.api import Client, ClusterError, Json, connect
from components.nodes.inspect import (
    CORDONED,
    cordoned_by_others,
    managed_by,
    pool_members,
    with_devices,
)
from components.platforms.findings import Surroundings
from components.platforms.requests import PresenceRequest
from components.release.helm_record import DEPLOYED, newest
from components.release.inspect import surroundings
from components.release.objects import lacking
from components.rollout import divided
from components.validation.inspect import deferred
from components.validation.inspect import drift as validation_drift

#: Node names that one finding spells out; the rest are counted.
NAMED = 5


@dataclass(frozen=True, kw_only=True)
class ClusterSeen:
    """What was found in a cluster.

    Attributes:
        unreachable: why not all was seen; empty where it was.
        problems: texts that must stop the run.
        nodes: names of all nodes; None where they were not seen.
        cordoned: nodes that a run of this program cordoned and did not give back.
        unschedulable: nodes of the pools that somebody else cordoned.
        members: labels of each pool's nodes.
        scheduling, validation: findings by pool.
        deferred: who holds GPUs that no run has validated, by node.
        presence: under ``platform``, what is missing of it, under ``release``, whose installation
            did not end.
        layouts: nodes that have another MIG layout, and which.
        surroundings: what `components.platforms.judge` judges; None where it was not seen.
        chart: why the platform's chart can't be fetched; empty where it can.
    """

    unreachable: str = ""
    problems: tuple[str, ...] = ()
    nodes: tuple[str, ...] | None = None
    cordoned: tuple[str, ...] = ()
    unschedulable: tuple[str, ...] = ()
    members: Mapping[str, list[Mapping[str, str]]] = field(default_factory=dict)
    scheduling: Mapping[str, str] = field(default_factory=dict)
    validation: Mapping[str, str] = field(default_factory=dict)
    deferred: Mapping[str, str] = field(default_factory=dict)
    presence: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    surroundings: Surroundings | None = None
    chart: str = ""


def _some(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def scheduling_drift(members: list[Json], pool: PoolScheduling) -> str | None:
    """What the nodes of a pool lack of its labels and taints; None where nothing differs.

    Nodes that no run touched are a finding too: the state can't tell whether this is the first run
    or the nodes were made anew since the last one.
    """
    manager, declared = pool.manager, pool.labels or pool.taints
    if declared and members and not any(managed_by(node, manager) for node in members):
        return f"not applied on {_some([node['metadata']['name'] for node in members])}"
    findings: dict[str, list[str]] = {}
    for node in members:
        name = node["metadata"]["name"]
        labels = node["metadata"].get("labels", {})
        wanted = pool.of_node(name)
        for key, value in wanted.labels.items():
            if key not in labels:
                findings.setdefault(f"lacks label {key}={value}", []).append(name)
            elif labels[key] != value:
                findings.setdefault(f"has label {key}={labels[key]}, declared {value}", []).append(
                    name
                )
        taints = {
            (taint["key"], taint.get("value", ""), taint["effect"])
            for taint in node["spec"].get("taints") or []
        }
        for taint in wanted.taints:
            if (taint["key"], taint.get("value", ""), taint["effect"]) not in taints:
                text = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
                findings.setdefault(f"lacks taint {text}", []).append(name)
    return "; ".join(f"node {_some(names)} {what}" for what, names in findings.items()) or None


async def validation_findings(
    client: Client, nodes: list[Json], pools: Iterable[PoolValidation], daemon_sets: list[Json]
) -> dict[str, str]:
    """Which nodes must be validated, by pool, for pools whose nodes are all in the cluster.

    Nodes with GPUs left out are a pool of their own here, so each document has its own nodes.
    """
    records = {}
    for pool in pools:
        try:
            members = pool_members(nodes, pool)
        except ClusterError:
            continue  # the whole pool's scheduling tells it
        finding = await validation_drift(client, members, pool, daemon_sets)
        if finding:
            records[pool.pool] = finding
    return records


async def deferrals(
    client: Client, nodes: list[Json], pools: Iterable[PoolValidation], daemon_sets: list[Json]
) -> dict[str, str]:
    """Return who holds GPUs that no run has validated yet, by node."""
    found: dict[str, str] = {}
    for pool in pools:
        try:
            members = pool_members(nodes, pool)
        except ClusterError:
            continue  # the whole pool's scheduling reports it
        found |= await deferred(client, members, pool, daemon_sets)
    return found


async def _presence(client: Client, wanted: PresenceRequest) -> dict[str, str]:
    """What is wrong with an installed platform; nothing where none is installed.

    Returns:
        ``platform``: what it lacks; ``release``: which record of Helm's is not ``deployed``.
    """
    found: dict[str, str] = {}
    record = await newest(client, wanted.release)
    if record is None:
        return {}
    if lacks := await lacking(client, wanted):
        found["platform"] = f"missing: {_some([str(item) for item in lacks])}"
    if record.status != DEPLOYED:
        found["release"] = f"{wanted.release}: revision {record.revision} is {record.status}"
    return found


async def nodes_by_name(context: str) -> dict[str, Json]:
    """Node objects by name.

    Raises:
        ClusterError: the cluster can't be reached.
    """
    async with connect(context) as client:
        return {node["metadata"]["name"]: node for node in await client.list("nodes")}


async def observe(asked: Question) -> ClusterSeen:
    """Look once at the cluster, and beside it at the platform's chart."""
    seen, problem = await asyncio.gather(_observe(asked), unreachable(**vars(asked.chart)))
    return replace(seen, chart=problem)


async def _observe(asked: Question) -> ClusterSeen:
    """Look at nodes, their validation, and what else is there; what came before an error stays."""
    seen = ClusterSeen()
    try:
        async with connect(asked.context) as client:
            nodes = await with_devices(
                client, await client.list("nodes"), [p.resources for p in asked.validation]
            )
            seen = replace(seen, nodes=tuple(map(_name, nodes)), cordoned=_cordoned(nodes))
            around = await surroundings(client, nodes, asked.endpoints, asked.own)
            seen = _with_members(replace(seen, surroundings=around), nodes, asked)
            try:
                seen = replace(seen, presence=await _presence(client, asked.presence))
            except grammar.IllFormed as error:
                problem = f"release {asked.presence.release.name}: {error}"
                seen = replace(seen, problems=(*seen.problems, problem))
            if asked.validation:
                sets = await client.list("daemonsets", base="/apis/apps")
                due = await validation_findings(client, nodes, asked.validation, sets)
                seen = replace(seen, validation=due)
                waiting = await deferrals(client, nodes, asked.validation, sets)
                seen = replace(seen, deferred=waiting)
    except ClusterError as error:
        seen = replace(seen, unreachable=str(error))
    return seen


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def _cordoned(nodes: list[Json]) -> tuple[str, ...]:
    """Return the nodes that a run of this program cordoned, but for the layouts' own run."""
    return tuple(
        _name(node)
        for node in nodes
        if CORDONED in node["metadata"].get("annotations", {}) and not divided.begun(node)
    )


def _with_members(seen: ClusterSeen, nodes: list[Json], asked: Question) -> ClusterSeen:
    """Add what is found of the pools' nodes."""
    members: dict[str, list[Json]] = {}
    findings: dict[str, str] = {}
    problems: list[str] = []
    for pool in asked.scheduling:
        try:
            members[pool.pool] = pool_members(nodes, pool)
        except ClusterError as error:
            problems.append(str(error))
            continue
        if finding := scheduling_drift(members[pool.pool], pool):
            findings[pool.pool] = finding
    every = [node for pool in members.values() for node in pool]
    return replace(
        seen,
        problems=tuple(problems),
        scheduling=findings,
        layouts={} if problems else divided.differences(nodes, asked.layouts),
        members={
            pool: [node["metadata"].get("labels", {}) for node in listed]
            for pool, listed in members.items()
        },
        unschedulable=tuple(cordoned_by_others(every)),
    )
