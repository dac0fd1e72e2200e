"""Read-only inspection of the cluster: missing objects, and differences from the settings."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpu_cluster.charts.availability import fetched
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.question import Question
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.findings import Finding, Findings
from gpu_cluster.inspection.overruled import (
    EditedOperand,
    Overruled,
    edited_operands,
    overruled,
)
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, ClusterError, Json, connect
from gpu_cluster.nodes import applied, record
from gpu_cluster.nodes.difference import SchedulingDifference, compare
from gpu_cluster.nodes.inspect import (
    CORDONED,
    cordoned_by_others,
    cordoner,
    list_nodes,
    node_name,
    pool_members,
    with_devices,
)
from gpu_cluster.platforms.findings import Surroundings
from gpu_cluster.platforms.requests import PresenceRequest
from gpu_cluster.release.definitions import outdated
from gpu_cluster.release.difference import PlatformDifference, missing_objects
from gpu_cluster.release.difference import compare as platform_difference
from gpu_cluster.release.helm_record import newest
from gpu_cluster.release.inspect import surroundings
from gpu_cluster.release.objects import observe_objects
from gpu_cluster.rollout import mig_targets
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster.validation.difference import ValidationDifference
from gpu_cluster.validation.health import NodeHealth
from gpu_cluster.validation.inspect import PoolSeen, observe_pool
from gpu_rules.faults import Fault
from gpu_rules.printable import printable, shortened

NAMED = 5
"""Maximum number of groups of nodes that a message names."""


@dataclass(frozen=True, kw_only=True)
class ClusterSeen:
    """Inspected state of a cluster.

    Attributes:
        unreachable: Why the inspection is incomplete. Empty: the inspection is complete.
        problems: Texts of problems that must stop the run.
        nodes: Names of all nodes. None: the nodes could not be listed.
        cordoned: Nodes that an earlier run of this program left cordoned.
        unschedulable: Nodes of the pools that were cordoned outside of this program.
        cordoners: By node, who cordoned it and why, as far as known.
        members: Labels of each pool's nodes.
        kernels: Kernel of each node.
        scheduling: Differences of nodes' labels and taints.
        validation: Nodes that must be validated.
        platform: Differences of the GPU platform.
        prepared: By node, the host that was prepared before the node's last validation.
        deferred: By node, the pods that hold GPUs which no run has validated.
        refused: By node, the pods because of which the node's validation would fail.
        health: GPUs of each validated node.
        layouts: Findings about nodes that get another MIG layout, by node.
        kept_layouts: MIG layouts that stay, because the platform changes none, by node.
        overruled: Labels and annotations by which others overrule the platform's settings on a
            node.
        edited_operands: Edits of an operator's DaemonSets that overrule them.
        surroundings: Facts that `gpu_cluster.platforms.validate_cluster` checks. None: not
            inspected.
        chart: Why the platform's chart can't be used. Empty: the chart is the declared one.
    """

    unreachable: str = ""
    problems: tuple[str, ...] = ()
    nodes: tuple[str, ...] | None = None
    cordoned: tuple[str, ...] = ()
    unschedulable: tuple[str, ...] = ()
    cordoners: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, list[Mapping[str, str]]] = field(default_factory=dict)
    kernels: Mapping[str, str] = field(default_factory=dict)
    scheduling: SchedulingDifference | None = None
    validation: ValidationDifference = field(default_factory=ValidationDifference)
    platform: PlatformDifference = field(default_factory=PlatformDifference)
    prepared: Mapping[str, str] = field(default_factory=dict)
    deferred: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    health: tuple[NodeHealth, ...] = ()
    layouts: Mapping[str, Finding] = field(default_factory=dict)
    kept_layouts: Mapping[str, str] = field(default_factory=dict)
    overruled: tuple[Overruled, ...] = ()
    edited_operands: tuple[EditedOperand, ...] = ()
    surroundings: Surroundings | None = None
    chart: str = ""


async def observe_validation(
    client: Client, nodes: list[Json], pools: Iterable[PoolValidation], daemon_sets: list[Json]
) -> list[PoolSeen]:
    """Return the validation of each pool whose nodes are all in the cluster.

    Nodes with excluded GPUs form a separate pool here, so each validation request has its own
    nodes.

    Args:
        daemon_sets: DaemonSets from `record.list_daemon_sets`.
    """
    pools_seen = []
    for pool in pools:
        try:
            members = pool_members(nodes, pool)
        except ClusterError:
            continue  # The scheduling check of the whole pool reports this error.
        pools_seen.append(await observe_pool(client, members, pool, daemon_sets))
    return pools_seen


async def observe_health(client: Client, pools: Sequence[PoolValidation]) -> tuple[NodeHealth, ...]:
    """Return the GPUs of each node of the pools whose nodes are all in the cluster.

    Raises:
        ClusterError: The cluster can't be reached.
    """
    nodes = await with_devices(client, await list_nodes(client), [pool.resources for pool in pools])
    sets = await record.list_daemon_sets(client, pools)
    pools_seen = await observe_validation(client, nodes, pools, sets)
    return tuple(node_health for pool_seen in pools_seen for node_health in pool_seen.health)


def validation_difference(pools_seen: Iterable[PoolSeen]) -> ValidationDifference:
    """Return which nodes must be validated."""
    pools: dict[str, Findings] = {}
    for pool_seen in pools_seen:
        if found := pool_seen.findings:
            pools[pool_seen.pool.pool] = (*pools.get(pool_seen.pool.pool, ()), *found)
    return ValidationDifference(pools=pools)


def deferrals(pools_seen: Iterable[PoolSeen]) -> dict[str, str]:
    """Return which pods hold GPUs that no run has validated yet, by node."""
    return {node: text for pool_seen in pools_seen for node, text in pool_seen.deferred.items()}


async def _observe_platform(
    client: Client, request: PresenceRequest, values: Mapping[str, Any]
) -> PlatformDifference:
    """Return the differences of the installed GPU platform's chart; empty if none is installed.

    Args:
        values: Desired values of the chart.
    """
    if request.release is None:
        return missing_objects((await observe_objects(client, request)).missing)
    release_record = await newest(client, request.release)
    if release_record is None:
        return PlatformDifference()
    objects_seen = await observe_objects(client, request)
    return platform_difference(
        str(request.release), release_record, objects_seen, request.version, values
    )


async def nodes_by_name(context: str) -> dict[str, Json]:
    """Return all Node objects by name.

    Raises:
        ClusterError: The cluster can't be reached.
    """
    async with connect(context) as client:
        return {node["metadata"]["name"]: node for node in await list_nodes(client)}


async def gpu_nodes(context: str, resources: Iterable[Collection[str]]) -> list[Json]:
    """Return all Node objects, with the devices of a DRA driver counted if a pool needs them.

    Args:
        resources: Extended resources of each pool.

    Raises:
        ClusterError: The cluster can't be reached.
    """
    async with connect(context) as client:
        return await with_devices(client, await list_nodes(client), resources)


async def observe_cluster(question: Question) -> ClusterSeen:
    """Inspect the cluster and, in parallel, fetch the platform's chart and compare it."""
    if question.chart is None:
        return await _observe(question)
    cluster_seen, chart = await asyncio.gather(_observe(question), fetched(question.chart))
    if chart.contents is None or chart.problem or cluster_seen.unreachable:
        return replace(cluster_seen, chart=chart.problem)
    try:
        async with connect(question.context) as client:
            old = await outdated(client, chart.contents, question.chart, question.presence.release)
    except ClusterError as error:
        return replace(cluster_seen, unreachable=str(error))
    return replace(cluster_seen, problems=(*cluster_seen.problems, *map(str, old)))


async def _observe(question: Question) -> ClusterSeen:
    """Inspect nodes, their validation and other objects; after an error, return what was found."""
    cluster_seen = ClusterSeen()
    try:
        async with connect(question.context) as client:
            nodes = await with_devices(
                client, await list_nodes(client), [p.resources for p in question.validation]
            )
            cluster_seen = replace(
                cluster_seen, nodes=tuple(map(node_name, nodes)), cordoned=_cordoned_nodes(nodes)
            )
            around = await surroundings(
                client,
                nodes,
                question.endpoints,
                question.own,
                question.service_address,
                question.manager,
                question.pods,
            )
            cluster_seen = with_members(replace(cluster_seen, surroundings=around), nodes, question)
            try:
                cluster_seen = replace(
                    cluster_seen,
                    platform=await _observe_platform(client, question.presence, question.values),
                )
            except grammar.IllFormed as error:
                problem = f"{question.presence.release}: {error}"
                cluster_seen = replace(cluster_seen, problems=(*cluster_seen.problems, problem))
            if question.validation:
                sets = await record.list_daemon_sets(client, question.validation)
                pools = await observe_validation(client, nodes, question.validation, sets)
                due = validation_difference(pools)
                refused = {
                    node: text for pool_seen in pools for node, text in pool_seen.refused.items()
                }
                well = tuple(node_health for pool in pools for node_health in pool.health)
                cluster_seen = replace(
                    cluster_seen,
                    validation=due,
                    deferred=deferrals(pools),
                    health=well,
                    edited_operands=tuple(edited_operands(sets, question.operand_overrides)),
                )
                cluster_seen = replace(cluster_seen, refused=refused)
    except ClusterError as error:
        cluster_seen = replace(cluster_seen, unreachable=str(error))
    return cluster_seen


def _cordoned_nodes(nodes: list[Json]) -> tuple[str, ...]:
    """Return the nodes that this program cordoned for another reason than a MIG layout change."""
    return tuple(
        node_name(node)
        for node in nodes
        if CORDONED in node["metadata"].get("annotations", {}) and not mig_targets.begun(node)
    )


def with_members(cluster_seen: ClusterSeen, nodes: list[Json], question: Question) -> ClusterSeen:
    """Add the results about the pools' nodes to the inspected state of the cluster."""
    members: dict[str, list[Json]] = {}
    problems: list[str] = []
    for pool in question.scheduling:
        try:
            members[pool.pool] = pool_members(nodes, pool)
        except ClusterError as error:
            problems.append(str(error))
    for pool in question.scheduling:
        problems += map(str, _of_other_stacks(members.get(pool.pool, ()), pool))
    member_nodes = [node for pool in members.values() for node in pool]
    records = {node_name(node): validation for node in nodes if (validation := record.decode(node))}
    layouts = {each.pool: each.layout for each in question.layouts.pools}
    by_rule = {
        pool: sum(
            records[node_name(node)].declared for node in listed if node_name(node) in records
        )
        for pool, listed in members.items()
        if pool in question.by_rule
    }
    return replace(
        cluster_seen,
        problems=tuple(problems),
        scheduling=compare(nodes, members, question.scheduling, by_rule),
        prepared={node: validation.host for node, validation in records.items() if validation.host},
        layouts={} if problems else mig_targets.differences(nodes, question.layouts),
        kept_layouts=mig_targets.kept(nodes, question.layouts),
        overruled=tuple(
            each
            for pool in question.scheduling
            for each in overruled(
                members.get(pool.pool, ()), question.overrides, pool, layouts.get(pool.pool, "")
            )
        ),
        members={
            pool: [node["metadata"].get("labels", {}) for node in listed]
            for pool, listed in members.items()
        },
        unschedulable=tuple(cordoned_by_others(member_nodes)),
        cordoners={node_name(node): who for node in member_nodes if (who := cordoner(node))},
        kernels={
            node_name(node): str(
                (node.get("status", {}).get("nodeInfo") or {}).get("kernelVersion", "")
            )
            for node in nodes
        },
    )


def _of_other_stacks(nodes: Iterable[Json], pool: PoolScheduling) -> Iterator[Fault]:
    """Yield a fault for each stack that has pools with some of a pool's nodes."""
    nodes_by_stack: dict[str, list[str]] = {}
    for node in nodes:
        for other_record in applied.of_other_stacks(node, pool.stack):
            nodes_by_stack.setdefault(other_record.stack, []).append(node_name(node))
    for stack, names in nodes_by_stack.items():
        yield Fault(
            f"pool {pool.pool}: node {shortened([*ranges(names)], NAMED)}",
            f"nodes of stack {printable(stack, 80)}",
            "nodes of one stack: two would change their labels and taints in turn",
            "take them out of that stack and run `gpu-cluster up` for it, or hand them back with "
            "`gpu-cluster leave`; if that is the earlier name of this stack, rename it back "
            "(`pulumi stack rename`)",
        )
