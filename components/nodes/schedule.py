"""Labels and taints of a pool's nodes: ``apply`` and ``release``.

One run acts on all nodes of a pool, so that a pool costs one resource however large it is.

Labels go on by server-side apply without force under a field manager of the pool's own: the API
server remembers what is ours, refuses to overwrite what others hold, and takes exactly ours away
on release. ``spec.taints`` is an atomic list (k8s.io/api core/v1 ``NodeSpec``): applying it would
drop the taints of others, so taints are added one by one under a resourceVersion test, as kubectl
does, and remembered in the annotation `RECORD`.

Input: ``context``, ``manager``, ``pool``, ``nodes`` (names) or ``selector`` (labels) with
``count``, ``labels``, ``taints`` (``key``, ``value``, ``effect``) and ``byItself``, labels and
taints of single nodes by name.
"""

from __future__ import annotations

import json

from components.api import APPLY, JSON_PATCH, Client, ClusterError, Json, Refused, connect, gather
from components.nodes.inspect import managed_by, pool_members, wanted_of
from components.program import main

RECORD = "gpu-cluster/taints"

#: Attempts to write a node's taints when somebody else writes the node at the same time.
ATTEMPTS = 8


def taints_wanted(current: list[Json], recorded: list[Json], wanted: list[Json]) -> list[Json]:
    """The node's taints after apply: others' stay, recorded ones that are no longer wanted go.

    Raises:
        ClusterError: somebody else's taint has our key and effect with another value.
    """
    result = [taint for taint in current if taint not in recorded or taint in wanted]
    for taint in wanted:
        same = [t for t in result if (t["key"], t["effect"]) == (taint["key"], taint["effect"])]
        if not same:
            result.append(taint)
        elif same[0].get("value", "") != taint.get("value", ""):
            raise ClusterError(
                f"taint {taint['key']}:{taint['effect']}: found value "
                f"{same[0].get('value', '')!r}, which this stack did not set; wanted "
                f"{taint.get('value', '')!r}; cure: remove that taint, or declare its value"
            )
    return result


def _plain(taint: Json) -> Json:
    return {key: taint[key] for key in ("key", "value", "effect") if taint.get(key)}


def _recorded(node: Json) -> list[Json]:
    text = node["metadata"].get("annotations", {}).get(RECORD)
    return list(json.loads(text)) if text else []


async def _write_taints(client: Client, node: Json, wanted: list[Json], manager: str) -> Json:
    """Brings a node's taints to `taints_wanted`; gives back the taints that are ours."""
    name = node["metadata"]["name"]
    recorded = _recorded(node)
    for _ in range(ATTEMPTS):
        current = node["spec"].get("taints") or []
        plain = [_plain(taint) for taint in current]
        after = taints_wanted(plain, recorded, wanted)
        ours = [taint for taint in wanted if taint not in plain or taint in recorded]
        if after == plain:
            return {"ours": ours, "changed": False}
        whole = {(t["key"], t["effect"]): t for t in current}
        value = [whole.get((t["key"], t["effect"]), t) for t in after]
        version = node["metadata"]["resourceVersion"]
        patch: list[Json] = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        if value:
            patch.append({"op": "add", "path": "/spec/taints", "value": value})
        else:
            patch.append({"op": "remove", "path": "/spec/taints"})
        try:
            await client.request(
                "PATCH",
                f"nodes/{name}",
                body=patch,
                content_type=JSON_PATCH,
                params={"fieldManager": manager},
            )
            return {"ours": ours, "changed": True}
        except Refused as error:
            if error.code not in (409, 422):
                raise
            node = await client.request("GET", f"nodes/{name}")
    raise ClusterError(
        f"node {name}: its taints changed {ATTEMPTS} times while they were being written; "
        "wanted: one writer; cure: find who writes them (`kubectl get node -o yaml "
        "--show-managed-fields`), then run again"
    )


async def _apply_metadata(client: Client, node: Json, metadata: Json, manager: str) -> None:
    name = node["metadata"]["name"]
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        # The uid makes a node that is gone an error: apply would create it otherwise.
        "metadata": {"name": name, "uid": node["metadata"]["uid"], **metadata},
    }
    try:
        await client.request(
            "PATCH",
            f"nodes/{name}",
            body=body,
            content_type=APPLY,
            params={"fieldManager": manager, "force": "false"},
        )
    except Refused as error:
        if error.code != 409:
            raise
        raise ClusterError(
            f"node {name}: {error}; wanted: labels that nobody else manages; cure: take the label "
            "out of the pool, or let its other owner give it up"
        ) from error


async def _settle(client: Client, node: Json, document: Json) -> bool:
    labels, taints = wanted_of(document, node["metadata"]["name"])
    manager: str = document["manager"]
    try:
        written = await _write_taints(client, node, taints, manager)
    except ClusterError as error:
        raise ClusterError(f"node {node['metadata']['name']}: {error}") from error
    metadata: Json = {"labels": labels}
    if written["ours"]:
        metadata["annotations"] = {
            RECORD: json.dumps(written["ours"], separators=(",", ":"), sort_keys=True)
        }
    found = node["metadata"]
    settled = (
        managed_by(node, manager)
        and all(found.get("labels", {}).get(key) == value for key, value in labels.items())
        # What another set first, such as the operator, must be ours, too: it may remove it.
        and _held(node, manager) == set(labels)
        and found.get("annotations", {}).get(RECORD) == metadata.get("annotations", {}).get(RECORD)
    )
    if not settled:
        await _apply_metadata(client, node, metadata, manager)
    return bool(written["changed"]) or not settled


def _held(node: Json, manager: str) -> set[str]:
    """Labels that we hold on the node."""
    for entry in node["metadata"].get("managedFields", []):
        if entry["manager"] == manager and entry["operation"] == "Apply":
            held = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            return {key.removeprefix("f:") for key in held if key != "."}
    return set()


async def _let_go(client: Client, node: Json, manager: str) -> bool:
    await _write_taints(client, node, [], manager)
    await _apply_metadata(client, node, {}, manager)
    return True


async def apply(document: Json) -> Json:
    """Labels and taints every node of the pool, lets go of nodes that left it.

    Nothing is written before all nodes are known to exist.
    """
    manager = document["manager"]
    async with connect(document["context"]) as client:
        nodes = await client.list("nodes")
        members = pool_members(nodes, document)
        names = {node["metadata"]["name"] for node in members}
        left = [n for n in nodes if managed_by(n, manager) and n["metadata"]["name"] not in names]
        changed = await gather(lambda node: _settle(client, node, document), members)
        await gather(lambda node: _let_go(client, node, manager), left)
    return {"nodes": len(members), "changed": sum(changed), "released": len(left)}


async def release(document: Json) -> Json:
    """Removes what `apply` set, on all nodes where this pool's manager holds something."""
    manager = document["manager"]
    async with connect(document["context"]) as client:
        ours = [node for node in await client.list("nodes") if managed_by(node, manager)]
        await gather(lambda node: _let_go(client, node, manager), ours)
    return {"released": len(ours)}


if __name__ == "__main__":
    main({"apply": apply, "release": release})
