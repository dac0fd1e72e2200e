"""Node labels and annotations that the GPU Operator and its feature discovery leave behind.

The operator labels nodes and never takes its labels back (NVIDIA/gpu-operator#1391); stale ones
make the next installation start operands where they should not. ``note`` says which of these keys
nodes carry before the operator comes; ``remove`` takes the others away when it has gone. What this
program's own field managers hold stays.

Input: ``context``, ``labels`` and ``annotations``, prefixes of keys. ``remove`` reads what ``note``
said from ``PULUMI_COMMAND_STDOUT``.
"""

from __future__ import annotations

import json
import os

from facts.api import JSON_PATCH, Client, Json, Refused, connect, gather

from ._program import main

MANAGER = "gpu-cluster-"
PLACES = ("labels", "annotations")


def keys(node: Json, place: str, prefixes: list[str]) -> set[str]:
    """Keys of a node's labels or annotations that begin with one of the prefixes."""
    found = node["metadata"].get(place) or {}
    return {key for key in found if key.startswith(tuple(prefixes))}


def held(node: Json, place: str) -> set[str]:
    """Keys that this program's field managers hold on a node."""
    return {
        key.removeprefix("f:")
        for entry in node["metadata"].get("managedFields", [])
        if entry["manager"].startswith(MANAGER)
        for key in entry.get("fieldsV1", {}).get("f:metadata", {}).get(f"f:{place}", {})
    }


async def note(document: Json) -> Json:
    """By place and key: the nodes that carry it already."""
    result: dict[str, dict[str, list[str]]] = {place: {} for place in PLACES}
    async with connect(document["context"]) as client:
        for node in await client.list("nodes"):
            for place in PLACES:
                for key in keys(node, place, document[place]):
                    result[place].setdefault(key, []).append(node["metadata"]["name"])
    return result


async def _strip(client: Client, node: Json, gone: list[tuple[str, str]]) -> None:
    name = node["metadata"]["name"]
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
        if error.code not in (404, 422):  # gone by now, the node or a key: nothing to take back
            raise


async def remove(document: Json) -> Json:
    """Takes away what was not there before."""
    before = json.loads(os.environ.get("PULUMI_COMMAND_STDOUT") or "{}")
    stripped = 0
    async with connect(document["context"]) as client:
        work = []
        for node in await client.list("nodes"):
            name = node["metadata"]["name"]
            gone = [
                (place, key)
                for place in PLACES
                for key in sorted(keys(node, place, document[place]) - held(node, place))
                if name not in before.get(place, {}).get(key, [])
            ]
            if gone:
                work.append((node, gone))
        await gather(lambda pair: _strip(client, *pair), work)
        stripped = len(work)
    return {"nodes": stripped}


if __name__ == "__main__":
    main({"note": note, "remove": remove})
