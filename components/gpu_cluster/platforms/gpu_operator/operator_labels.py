"""Program `operator-labels`: remove node labels and annotations that the GPU Operator leaves.

The operator and its feature discovery label nodes and never remove these labels
(NVIDIA/gpu-operator#1391). Stale labels make the next installation start operands on the wrong
nodes. The action `note` records, before the operator is installed, which nodes already have keys
with the operator's prefixes. The action `remove` deletes all other keys with these prefixes after
the operator is removed, except keys that field managers of this program own. The MIG layout is
removed although this program owns it: its label, and its annotation.

Input: a `NodeKeysRequest`. `remove` reads the `NotedKeys` that `note` printed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_cluster.kubernetes.api import APPLY, JSON_PATCH, Client, Json, Refused, connect
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.kubernetes.labels import FIELD_MANAGERS, owned_keys
from gpu_cluster.kubernetes.resources import LAYOUTS
from gpu_cluster.platforms.requests import NodeKeysRequest, NotedKeys
from gpu_cluster.program import main
from gpu_cluster.requests import previous

PLACES = ("labels", "annotations")


def keys(node: Json, place: str, prefixes: Sequence[str]) -> set[str]:
    """Return the keys of a node's labels or annotations that begin with one of the prefixes."""
    present = node["metadata"].get(place) or {}
    return {key for key in present if key.startswith(tuple(prefixes))}


def held(node: Json) -> dict[str, dict[str, set[str]]]:
    """Return the keys that this program owns on a node, by field manager and by place.

    A place is `labels` or `annotations`.
    """
    return {
        entry["manager"]: {place: owned_keys(entry, place) for place in PLACES}
        for entry in node["metadata"].get("managedFields", [])
        if entry["manager"].startswith(FIELD_MANAGERS) and entry["operation"] == "Apply"
    }


async def note(request: NodeKeysRequest) -> NotedKeys:
    """Record which nodes already have label and annotation keys with the operator's prefixes."""
    prefixes = {"labels": request.labels, "annotations": request.annotations}
    result: dict[str, dict[str, list[str]]] = {place: {} for place in PLACES}
    async with connect(request.context) as client:
        for node in await client.list("nodes"):
            for place, keys_of_place in result.items():
                for key in sorted(keys(node, place, prefixes[place])):
                    keys_of_place.setdefault(key, []).append(node["metadata"]["name"])
    return NotedKeys(
        **{
            place: {key: tuple(names) for key, names in keys_of_place.items()}
            for place, keys_of_place in result.items()
        }
    )


async def _strip(client: Client, node: Json, gone: list[tuple[str, str]]) -> None:
    """Remove label and annotation keys from a node, then apply this program's own keys again.

    A key that both the operator and this program have set would otherwise stay after the
    operator's removal, still owned by the operator. The MIG layout's label and annotation are not
    applied again: a layout has no effect without the operator's MIG manager.
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
        # Somebody else deleted the node or a key, so there is nothing to remove.
        if error.code not in (404, 422):
            raise
        return
    for manager, places in held(node).items():
        if any(key in places[place] for place, key in gone):
            own_metadata = {
                place: {key: metadata[place][key] for key in places[place]}
                for place in PLACES
                if not manager.endswith(LAYOUTS)
            }
            body = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "uid": metadata["uid"], **own_metadata},
            }
            params = {"fieldManager": manager, "force": "true"}
            await client.request(
                "PATCH", f"nodes/{name}", body=body, content_type=APPLY, params=params
            )


async def remove(request: NodeKeysRequest) -> Json:
    """Remove the operator's label and annotation keys that `note` did not record on the nodes."""
    noted = previous(NotedKeys)
    before = {
        place: {key: frozenset(names) for key, names in noted_keys.items()}
        for place, noted_keys in (("labels", noted.labels), ("annotations", noted.annotations))
    }
    prefixes = {"labels": request.labels, "annotations": request.annotations}
    async with connect(request.context) as client:
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
