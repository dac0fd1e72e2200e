"""Node labels and annotations that the GPU Operator and its feature discovery leave behind.

The operator labels nodes and never removes its labels (NVIDIA/gpu-operator#1391); stale ones
make the next installation start operands where they should not. ``note`` says which of these keys
nodes carry before the operator comes; ``remove`` takes the others away when it has gone. What this
program's own field managers hold stays.

Input: a `NodeKeysRequest`. ``remove`` reads the `NotedKeys` that ``note`` printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from components.kubernetes.api import APPLY, JSON_PATCH, Client, Json, Refused, connect
from components.kubernetes.gather import gather
from components.kubernetes.resources import LAYOUTS
from components.platforms.requests import NodeKeysRequest, NotedKeys
from components.program import main
from components.requests import previous

MANAGER = "gpu-cluster-"
PLACES = ("labels", "annotations")


def keys(node: Json, place: str, prefixes: Sequence[str]) -> set[str]:
    """Keys of a node's labels or annotations that begin with one of the prefixes."""
    present = node["metadata"].get(place) or {}
    return {key for key in present if key.startswith(tuple(prefixes))}


def held(node: Json) -> dict[str, dict[str, set[str]]]:
    """By field manager of this program and by place: the keys that it holds on a node."""
    return {
        entry["manager"]: {
            place: {
                key.removeprefix("f:")
                for key in entry.get("fieldsV1", {}).get("f:metadata", {}).get(f"f:{place}", {})
                if key != "."
            }
            for place in PLACES
        }
        for entry in node["metadata"].get("managedFields", [])
        if entry["manager"].startswith(MANAGER)
        and not entry["manager"].endswith(LAYOUTS)  # without MIG manager it names nothing
        and entry["operation"] == "Apply"
    }


async def note(left: NodeKeysRequest) -> NotedKeys:
    """By place and key: the nodes that carry it already."""
    prefixes = {"labels": left.labels, "annotations": left.annotations}
    result: dict[str, dict[str, tuple[str, ...]]] = {place: {} for place in PLACES}
    async with connect(left.context) as client:
        for node in await client.list("nodes"):
            for place, found in result.items():
                for key in sorted(keys(node, place, prefixes[place])):
                    found[key] = (*found.get(key, ()), node["metadata"]["name"])
    return NotedKeys(labels=result["labels"], annotations=result["annotations"])


async def _strip(client: Client, node: Json, gone: list[tuple[str, str]]) -> None:
    """Removes keys from a node, and restores those that this program holds, now as its alone.

    A key that the operator had set, too, would otherwise survive our cleanup.
    """
    name, metadata = node["metadata"]["name"], node["metadata"]
    patch: list[Json] = [
        {
            "op": "remove",
            "path": f"/metadata/{place}/{key.replace('~', '~0').replace('/', '~1')}",
        }
        for place, key in gone
    ]
    try:
        await client.request("PATCH", f"nodes/{name}", body=patch, content_type=JSON_PATCH)
    except Refused as error:
        if error.code not in (404, 422):  # gone by now, the node or a key: nothing to remove
            raise
        return
    for manager, places in held(node).items():
        if any(key in places[place] for place, key in gone):
            own = {place: {key: metadata[place][key] for key in places[place]} for place in PLACES}
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": metadata["uid"], **own},
            }
            params = {"fieldManager": manager, "force": "true"}
            await client.request(
                "PATCH", f"nodes/{name}", body=body, content_type=APPLY, params=params
            )


async def remove(left: NodeKeysRequest) -> Json:
    """Takes away what was not there before."""
    noted = previous(NotedKeys)
    before = {"labels": noted.labels, "annotations": noted.annotations}
    prefixes = {"labels": left.labels, "annotations": left.annotations}
    async with connect(left.context) as client:
        work = []
        for node in await client.list("nodes"):
            name = node["metadata"]["name"]
            gone = [
                (place, key)
                for place in PLACES
                for key in sorted(keys(node, place, prefixes[place]))
                if name not in before[place].get(key, ())
            ]
            if gone:
                work.append((node, gone))
        await gather(lambda pair: _strip(client, *pair), work)
    return {"nodes": len(work)}


if __name__ == "__main__":
    main(NodeKeysRequest, {"note": note, "remove": remove})
