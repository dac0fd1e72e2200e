"""One read-only look at the cluster: what is missing, what differs from what is declared."""

from __future__ import annotations

import asyncio

from components import grammar
from components.api import Client, ClusterError, Json, connect
from components.charts.reach import unreachable
from components.nodes.inspect import (
    CORDONED,
    cordoned_by_others,
    managed_by,
    pool_members,
    with_devices,
)
from components.platforms.helm_record import DEPLOYED, named, newest
from components.platforms.inspect import surroundings
from components.platforms.objects import lacking
from components.rollout import divided
from components.validation.inspect import deferred
from components.validation.inspect import drift as validation_drift

#: Node names that one finding spells out; the rest are counted.
NAMED = 5


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


async def _presence(client: Client, document: Json) -> dict[str, str]:
    """What is wrong with an installed platform; nothing where none is installed.

    Returns:
        ``platform``: what it lacks; ``release``: which record of Helm's is not ``deployed``.
    """
    release, found = document["release"], {}
    record = await newest(client, release["name"], release["namespace"])
    if record is None:
        return {}
    if lacks := await lacking(client, document):
        found["platform"] = f"missing: {_some([str(item) for item in lacks])}"
    if record.status != DEPLOYED:
        found["release"] = f"{named(release)}: revision {record.revision} is {record.status}"
    return found


async def nodes_by_name(context: str) -> dict[str, Json]:
    """Node objects by name.

    Raises:
        ClusterError: the cluster can't be reached.
    """
    async with connect(context) as client:
        return {node["metadata"]["name"]: node for node in await client.list("nodes")}


async def answer(request: Json) -> Json:
    """`observe` for a request: its arguments by name, and ``chart``, those of `unreachable`.

    Returns:
        What `observe` does, and ``chart``: why it can't be fetched, empty where it can.
    """
    chart = request.pop("chart")
    found, problem = await asyncio.gather(observe(**request), unreachable(**chart))
    return {**found, "chart": problem}


async def observe(
    context: str,
    scheduling: list[Json],
    validation: list[Json],
    presence: Json,
    endpoints: list[str],
    own: list[str],
    layouts: Json,
) -> Json:
    """Looks once at nodes, their validation, and what else is in the cluster.

    Args:
        context: context of the kubeconfig.
        scheduling: one document per pool, the input of ``components.nodes.schedule``.
        validation: one document per pool with GPUs, the input of the program ``validation``.
        presence: the input of ``components.platforms.restore``.
        endpoints: ``host:port`` that nodes need.
        own: namespaces that the stack makes.
        layouts: which nodes should have which MIG layout (`components.rollout.divided.targets`).

    Returns:
        ``reached``, ``unreachable`` (why not), ``problems`` (texts that must stop the run),
        ``scheduling`` and ``validation``: findings by pool; ``presence``: under ``platform``, what
        is missing of it, under ``release``, whose installation did not end; ``surroundings``: what
        `components.platforms.judge` judges; ``nodes``: names of all nodes; ``members``: labels of
        each pool's nodes; ``cordoned``: nodes that a run of this program cordoned and did not give
        back; ``unschedulable``: nodes of the pools that somebody else cordoned; ``deferred``: who
        holds GPUs that no run has validated, by node; ``layouts``: nodes that have another MIG
        layout, and which.
    """
    findings: Json = {"reached": False, "problems": [], "cordoned": []}
    findings |= {"scheduling": {}, "validation": {}, "presence": {}, "layouts": {}}
    try:
        async with connect(context) as client:
            nodes = await with_devices(client, await client.list("nodes"), validation)
            findings["reached"] = True
            findings["nodes"] = [node["metadata"]["name"] for node in nodes]
            findings["surroundings"] = await surroundings(client, nodes, endpoints, own)
            findings["cordoned"] = [
                node["metadata"]["name"]
                for node in nodes
                if CORDONED in node["metadata"].get("annotations", {})
                and not divided.begun(node)  # the layouts' own run goes on with it
            ]
            members = {}
            for document in scheduling:
                pool = document["pool"]
                try:
                    members[pool] = pool_members(nodes, pool)
                except ClusterError as error:
                    findings["problems"].append(str(error))
                    continue
                finding = scheduling_drift(members[pool], document)
                if finding:
                    findings["scheduling"][pool] = finding
            if not findings["problems"]:
                findings["layouts"] = divided.differences(nodes, layouts)
            findings["members"] = {
                pool: [node["metadata"].get("labels", {}) for node in pool_members]
                for pool, pool_members in members.items()
            }
            findings["unschedulable"] = cordoned_by_others(
                [node for pool in members.values() for node in pool]
            )
            try:
                findings["presence"] = await _presence(client, presence)
            except grammar.IllFormed as error:
                findings["problems"].append(f"release {presence['release']['name']}: {error}")
            if validation:
                sets = await client.list("daemonsets", base="/apis/apps")
                due = await validation_findings(client, nodes, validation, sets)
                waiting = await deferrals(client, nodes, validation, sets)
                findings |= {"validation": due, "deferred": waiting}
    except ClusterError as error:
        findings["unreachable"] = str(error)
    return findings
