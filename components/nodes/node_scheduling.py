"""Labels and taints of a pool's nodes: ``apply`` and ``release``.

One run acts on all nodes of a pool, so that a pool costs one resource however large it is.

Labels go on by server-side apply without force under a field manager of the pool's own: the API
server remembers what is ours, refuses to overwrite what others hold, and takes exactly ours away
on release. Taints are added one by one (`components.nodes.taints`), and an annotation remembers
them. Another one keeps what was applied (`components.nodes.applied`). A node that is seen for the
first time is closed until its GPUs ran a kernel (`components.nodes.startup_taint`).

Input: `components.desired.pool.PoolScheduling`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from components.desired.pool import PoolScheduling
from components.kubernetes.api import APPLY, Client, ClusterError, Json, Refused, connect
from components.kubernetes.gather import gather
from components.nodes import applied, startup_taint
from components.nodes.inspect import managed_by, pool_members
from components.nodes.taints import RECORD, claimed, recorded_taints, write_taints
from components.program import main
from policies.faults import Fault


async def _apply_metadata(client: Client, node: Json, metadata: Json, manager: str) -> Json:
    """Gives back the node as it is then."""
    name = node["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        # The uid makes a node that is gone an error: apply would create it otherwise.
        "metadata": {"name": name, "uid": node["metadata"]["uid"], **metadata},
    }
    try:
        applied: Json = await client.request(
            "PATCH",
            f"nodes/{name}",
            body=body,
            content_type=APPLY,
            params={"fieldManager": manager, "force": "false"},
        )
        return applied
    except Refused as error:
        if error.code != 409:
            raise
        wanted = "labels that nobody else manages"
        cure = "take the label out of the pool, or let its other owner give it up"
        raise ClusterError(Fault(f"node {name}", error.message, wanted, cure)) from error


async def _hand_over(
    client: Client, node: Json, pool: PoolScheduling, labels: Mapping[str, str]
) -> None:
    """Lets others hold labels that are no longer ours, so that they stay when we let go."""
    for key, manager in pool.hands_over.items():
        if key in _held(node, pool.manager) and key not in labels:
            metadata = {"labels": {key: node["metadata"]["labels"][key]}}
            await _apply_metadata(client, node, metadata, manager)


async def _settle(client: Client, node: Json, pool: PoolScheduling) -> bool:
    wanted, manager = pool.of_node(node["metadata"]["name"]), pool.manager
    labels, taints = wanted.labels, list(wanted.taints)
    await _hand_over(client, node, pool, labels)
    try:
        node = await _claim(client, node, taints, pool)
        written = await write_taints(client, node, recorded_taints(node), taints, manager)
    except ClusterError as error:
        place = f"node {node['metadata']['name']}"
        raise ClusterError(
            *(replace(fault, place=f"{place}: {fault.place}") for fault in error.faults)
        ) from error
    metadata: Json = {"labels": labels, "annotations": applied.annotation(pool, _name(node))}
    if written["ours"]:
        metadata["annotations"] |= _record(written["ours"])
    present = node["metadata"]
    settled = (
        managed_by(node, manager)
        and all(present.get("labels", {}).get(key) == value for key, value in labels.items())
        # What another set first, such as the operator, must be ours, too: it may remove it.
        and _held(node, manager) == set(labels)
        and present.get("annotations", {}).get(RECORD) == metadata["annotations"].get(RECORD)
        and applied.kept(node, pool.pool) == applied.annotation(pool, _name(node))
    )
    if not settled:
        await _apply_metadata(client, node, metadata, manager)
    return bool(written["changed"]) or not settled


async def _claim(client: Client, node: Json, taints: list[Json], pool: PoolScheduling) -> Json:
    """Record that taints change, and those that will be ours; return the node."""
    recorded = recorded_taints(node)
    new = [taint for taint in claimed(node, recorded, taints) if taint not in recorded]
    if not new and all(taint in taints for taint in recorded):
        return node
    held = {key: node["metadata"]["labels"][key] for key in _held(node, pool.manager)}
    noted = {**applied.unfinished(node, pool.pool), **_record([*recorded, *new])}
    metadata = {"labels": held, "annotations": noted}
    return await _apply_metadata(client, node, metadata, pool.manager)


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def _record(taints: list[Json]) -> Json:
    return {RECORD: json.dumps(taints, separators=(",", ":"), sort_keys=True)}


def _held(node: Json, manager: str) -> set[str]:
    """Labels that we hold on the node."""
    for entry in node["metadata"].get("managedFields", []):
        if entry["manager"] == manager and entry["operation"] == "Apply":
            held = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            return {key.removeprefix("f:") for key in held if key != "."}
    return set()


async def _let_go(client: Client, node: Json, manager: str) -> bool:
    await write_taints(client, node, [*recorded_taints(node), startup_taint.TAINT], [], manager)
    await _apply_metadata(client, node, {}, manager)
    return True


async def apply(pool: PoolScheduling) -> Json:
    """Labels and taints every node of the pool, lets go of nodes that left it.

    Nothing is written before all nodes are known to exist.
    """
    manager = pool.manager
    async with connect(pool.context) as client:
        nodes = await client.list("nodes")
        members = pool_members(nodes, pool)
        names = {node["metadata"]["name"] for node in members}
        left = [n for n in _ours(nodes, pool) if n["metadata"]["name"] not in names]
        if pool.startup_taint:
            # First of all: a pod may come as soon as there are labels.
            fresh = [n for n in members if not managed_by(n, manager)]
            await gather(lambda node: startup_taint.add_startup_taint(client, node, pool), fresh)
            members = pool_members(await client.list("nodes"), pool) if fresh else members
        changed = await gather(lambda node: _settle(client, node, pool), members)
        await gather(lambda node: _let_go(client, node, manager), left)
    return {"nodes": len(members), "changed": sum(changed), "released": len(left)}


def _ours(nodes: list[Json], pool: PoolScheduling) -> list[Json]:
    """Nodes where this pool's manager holds something, but for those in maintenance."""
    return [
        node
        for node in nodes
        if managed_by(node, pool.manager) and node["metadata"]["name"] not in pool.maintenance
    ]


async def release(pool: PoolScheduling) -> Json:
    """Removes what `apply` set, on all nodes where this pool's manager holds something.

    Nodes in maintenance keep it: they aren't touched.
    """
    manager = pool.manager
    async with connect(pool.context) as client:
        ours = _ours(await client.list("nodes"), pool)
        await gather(lambda node: _let_go(client, node, manager), ours)
    return {"released": len(ours)}


if __name__ == "__main__":
    main(PoolScheduling, {"apply": apply, "release": release})
