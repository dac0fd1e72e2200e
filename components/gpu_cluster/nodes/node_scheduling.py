"""Program that sets the labels and taints of the pools' nodes: actions `apply` and `release`.

One run covers all nodes of all pools, so that the number of resources doesn't grow with either.
Labels are set by server-side apply, without force, under a field manager of the pool. So the API
server knows which labels belong to the pool, refuses to overwrite labels of other managers, and
removes exactly the pool's labels on release. Taints are added one by one
(`gpu_cluster.nodes.taints`) and an annotation records them. Another annotation records the applied
settings (`gpu_cluster.nodes.applied`). A node that is new to the program gets a start-up taint
until its GPUs have run a kernel (`gpu_cluster.nodes.startup_taint`).
Input: `gpu_cluster.desired.pool.PoolsScheduling`. A Command in the state of an earlier version has
one pool, as a `PoolScheduling`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_cluster.desired.pool import PoolScheduling, PoolsScheduling
from gpu_cluster.kubernetes.api import APPLY, Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.labels import owned_keys, pool_manager
from gpu_cluster.nodes import applied, startup_taint
from gpu_cluster.nodes.inspect import list_nodes, managed_by, members_of_pools, node_name
from gpu_cluster.nodes.taints import RECORD, claimed, recorded_taints, write_taints
from gpu_cluster.program import main
from gpu_cluster.requests import previous
from gpu_rules.faults import Fault

CONFLICT = 409
"""HTTP status of a server-side apply of a field that another manager owns."""


async def _apply_metadata(
    client: Client, node: Json, metadata: Json, manager: str, *, force: bool = False
) -> Json:
    """Apply labels and annotations to a node, and return the updated node."""
    name = node["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        # With the UID, a deleted node is an error; without it, server-side apply would create a
        # node.
        "metadata": {"name": name, "uid": node["metadata"]["uid"], **metadata},
    }
    applied: Json = await client.request(
        "PATCH",
        f"nodes/{name}",
        body=body,
        content_type=APPLY,
        params={"fieldManager": manager, "force": str(force).lower()},
    )
    return applied


async def _apply(client: Client, node: Json, metadata: Json, pool: PoolScheduling) -> Json:
    """Apply a pool's labels and annotations to a node, and return the updated node.

    A node that moves to another pool of the stack may still have the labels of its former pool,
    which lets go of the node later; these are overwritten.

    Raises:
        ClusterError: Somebody else manages one of the labels, with another value.
    """
    try:
        return await _apply_metadata(client, node, metadata, pool.manager)
    except Refused as error:
        if error.code != CONFLICT:
            raise
        fresh = await client.request("GET", f"nodes/{node_name(node)}")
        if _owners_of_others(fresh, metadata, pool.manager) <= _former_managers(fresh, pool):
            return await _apply_metadata(client, fresh, metadata, pool.manager, force=True)
        wanted = "labels that no other program manages"
        cure = "take the label out of the pool, or let its other owner give it up"
        fault = Fault(f"node {node_name(node)}", error.message, wanted, cure)
        raise ClusterError(fault) from error


def _former_managers(node: Json, pool: PoolScheduling) -> set[str]:
    """Return the field managers of other pools of the stack that recorded settings on a node."""
    return {pool_manager(pool.stack, record.pool) for record in _of_other_pools(node, pool)}


def _of_other_pools(node: Json, pool: PoolScheduling) -> list[applied.Applied]:
    return [record for record in applied.every(node, pool.stack) if record.pool != pool.pool]


def _owners_of_others(node: Json, metadata: Json, manager: str) -> set[str]:
    """Return the other managers that own labels or annotations whose values would change."""
    owners = set()
    for section in ("labels", "annotations"):
        present = node["metadata"].get(section) or {}
        keys = {
            key for key, value in metadata.get(section, {}).items() if present.get(key) != value
        }
        for entry in node["metadata"].get("managedFields", []):
            if entry["manager"] != manager and keys & owned_keys(entry, section):
                owners.add(str(entry["manager"]))
    return owners


async def _hand_over(
    client: Client, node: Json, pool: PoolScheduling, labels: Mapping[str, str]
) -> None:
    """Transfer the ownership of labels that this pool no longer manages to another field manager.

    The labels stay on the node when this pool releases them.
    """
    for key, manager in pool.hands_over.items():
        if key in _owned_label_keys(node, pool.manager) and key not in labels:
            metadata = {"labels": {key: node["metadata"]["labels"][key]}}
            await _apply_metadata(client, node, metadata, manager)


async def _settle_node(
    client: Client, node: Json, pool: PoolScheduling, closed: Collection[str]
) -> bool:
    """Set a node's labels and taints; return whether something changed.

    Args:
        closed: Names of the nodes that get the start-up taint.
    """
    desired, manager = pool.of_node(node["metadata"]["name"]), pool.manager
    labels, taints = desired.labels, list(desired.taints)
    startup = [startup_taint.TAINT] if node_name(node) in closed else []
    await _hand_over(client, node, pool, labels)
    try:
        node = await _claim_taints(client, node, taints, pool)
        # Set taints before labels, because pods may be scheduled as soon as the labels exist.
        written = await write_taints(client, node, recorded_taints, [*taints, *startup], manager)
    except ClusterError as error:
        place = f"node {node['metadata']['name']}"
        raise ClusterError(
            *(
                fault
                if fault.place.startswith(place)
                else replace(fault, place=f"{place}: {fault.place}")
                for fault in error.faults
            )
        ) from error
    metadata: Json = {
        "labels": labels,
        "annotations": applied.annotation(pool, node_name(node)),
    }
    if ours := [taint for taint in written["ours"] if taint not in startup]:
        metadata["annotations"] |= _record(ours)
    present = node["metadata"]
    settled = (
        managed_by(node, manager)
        and all(present.get("labels", {}).get(key) == value for key, value in labels.items())
        # Labels that another manager set first, such as the GPU Operator, must be owned too,
        # because the other manager may remove them.
        and _owned_label_keys(node, manager) == set(labels)
        and present.get("annotations", {}).get(RECORD) == metadata["annotations"].get(RECORD)
        and applied.kept(node, pool.pool) == applied.annotation(pool, node_name(node))
    )
    if not settled:
        await _apply(client, node, metadata, pool)
    return bool(written["changed"]) or not settled


async def _claim_taints(
    client: Client, node: Json, taints: list[Json], pool: PoolScheduling
) -> Json:
    """Record on the node which taints the pool will own after the change; return the node."""
    recorded = recorded_taints(node)
    new = [taint for taint in claimed(node, recorded, taints) if taint not in recorded]
    if not new and all(taint in taints for taint in recorded):
        return node
    owned_labels = {
        key: node["metadata"]["labels"][key] for key in _owned_label_keys(node, pool.manager)
    }
    noted = {**applied.unfinished(node, pool.pool), **_record([*recorded, *new])}
    metadata = {"labels": owned_labels, "annotations": noted}
    return await _apply(client, node, metadata, pool)


def _record(taints: list[Json]) -> Json:
    return {RECORD: json.dumps(taints, separators=(",", ":"), sort_keys=True)}


def _owned_label_keys(node: Json, manager: str) -> set[str]:
    """Return the keys of the labels that a field manager owns on a node."""
    for entry in node["metadata"].get("managedFields", []):
        if entry["manager"] == manager and entry["operation"] == "Apply":
            return owned_keys(entry, "labels")
    return set()


async def _let_go(client: Client, node: Json, pool: PoolScheduling) -> bool:
    """Remove a pool's labels and taints from a node, except those that another pool declares.

    A renamed pool is created before the pool with the former name is released, and a node may have
    moved to another pool of the stack.
    """

    def removable(node: Json) -> list[Json]:
        other_records = _of_other_pools(node, pool)
        other_taints = [taint for record in other_records for taint in record.taints]
        ours = [taint for taint in recorded_taints(node) if taint not in other_taints]
        return ours if other_records else [*ours, startup_taint.TAINT]

    await write_taints(client, node, removable, [], pool.manager)
    await _apply_metadata(client, node, {}, pool.manager)
    return True


@dataclass(frozen=True, kw_only=True)
class AppliedPools:
    """Pools whose labels and taints the last run set: a part of the program's output."""

    pools: tuple[str, ...] = ()


def _requested_pools(request: PoolsScheduling | PoolScheduling) -> tuple[PoolScheduling, ...]:
    return (request,) if isinstance(request, PoolScheduling) else request.pools


async def apply(request: PoolsScheduling | PoolScheduling) -> Json:
    """Set the labels and taints of every node in the pools, and release nodes that left their pool.

    Nothing is written until all nodes of all pools are known to exist. A node that moves gets the
    labels of its new pool before its former pool releases it. Otherwise it would lack labels for a
    moment, and the device plugin would restart there.
    """
    pools = _requested_pools(request)
    async with connect(request.context) as client:
        nodes = await list_nodes(client)
        members = members_of_pools(nodes, pools)
        # A killed run may have recorded its taints on a node before it set them; only the record of
        # applied settings shows that the node had its start-up taint.
        fresh = [
            (pool, new)
            for pool, of_pool in members
            if pool.startup_taint
            and (new := [node for node in of_pool if not applied.kept(node, pool.pool)])
        ]
        closed: set[str] = set()
        for pool, new in fresh:
            closed |= await startup_taint.nodes_to_close(client, new, pool)
        settled = [(node, pool) for pool, of_pool in members for node in of_pool]
        changed = await gather(lambda each: _settle_node(client, *each, closed), settled)
        names = {pool.pool: set(map(node_name, of_pool)) for pool, of_pool in members}
        left = [
            (node, pool)
            for pool in (*pools, *_former_pools(pools))
            for node in _nodes_of_manager(nodes, pool)
            if node_name(node) not in names.get(pool.pool, ())
        ]
        joined = frozenset().union(*names.values())

        async def let_go(each: tuple[Json, PoolScheduling]) -> None:
            node, pool = each
            if node_name(node) in joined:
                # Its new pool has changed it, and that pool's taints stay.
                node = await client.request("GET", f"nodes/{node_name(node)}")
            await _let_go(client, node, pool)

        await gather(let_go, left)
    return {
        "nodes": len(settled),
        "changed": sum(changed),
        "released": len(left),
        "pools": [pool.pool for pool in pools],
    }


def _former_pools(pools: Sequence[PoolScheduling]) -> Iterator[PoolScheduling]:
    """Yield the pools that the last run set and that are no longer declared."""
    names, maintenance = {pool.pool for pool in pools}, {n for p in pools for n in p.maintenance}
    for name in previous(AppliedPools).pools:
        if name not in names:
            yield PoolScheduling(
                context=pools[0].context,
                pool=name,
                manager=pool_manager(pools[0].stack, name),
                stack=pools[0].stack,
                maintenance=tuple(sorted(maintenance)),
                together=True,
            )


def _nodes_of_manager(nodes: list[Json], pool: PoolScheduling) -> list[Json]:
    """Return the nodes on which the pool's field manager owns something.

    Nodes in maintenance are left out, and, for a Command of the pool alone, nodes that the Command
    of all pools has taken over.
    """
    return [
        node
        for node in nodes
        if managed_by(node, pool.manager)
        and node_name(node) not in pool.maintenance
        and (pool.together or not _is_taken_over(node, pool))
    ]


def _is_taken_over(node: Json, pool: PoolScheduling) -> bool:
    record = applied.applied(node, pool.pool)
    return record is not None and record.together


async def release(request: PoolsScheduling | PoolScheduling) -> Json:
    """Remove the labels and taints of the pools from all nodes that have them.

    Nodes in maintenance are not changed.
    """
    async with connect(request.context) as client:
        nodes = await list_nodes(client)
        ours = [
            (node, pool)
            for pool in _requested_pools(request)
            for node in _nodes_of_manager(nodes, pool)
        ]
        await gather(lambda each: _let_go(client, *each), ours)
    return {"released": len(ours)}


if __name__ == "__main__":
    main(PoolsScheduling | PoolScheduling, {"apply": apply, "release": release})
