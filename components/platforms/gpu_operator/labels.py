"""Node labels and annotations that the GPU Operator and its feature discovery leave behind.

The operator labels nodes and never removes its labels (NVIDIA/gpu-operator#1391); stale ones
make the next installation start operands where they should not. ``note`` says which of these keys
nodes carry before the operator comes; ``remove`` takes the others away when it has gone. What this
program's own field managers hold stays.

Input: ``context``, ``labels`` and ``annotations``, prefixes of keys. ``remove`` reads what ``note``
said from ``PULUMI_COMMAND_STDOUT``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from components.kubernetes.api import APPLY, JSON_PATCH, Client, Json, Refused, connect
from components.kubernetes.gather import gather
from components.kubernetes.resources import LAYOUTS
from components.program import main

MANAGER = "gpu-cluster-"
PLACES = ("labels", "annotations")


def keys(node: Json, place: str, prefixes: list[str]) -> set[str]:
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
                for key in sorted(keys(node, place, document[place]))
                if name not in before.get(place, {}).get(key, [])
            ]
            if gone:
                work.append((node, gone))
        await gather(lambda pair: _strip(client, *pair), work)
        stripped = len(work)
    return {"nodes": stripped}


if __name__ == "__main__":
    main(dict[str, Any], {"note": note, "remove": remove})
