"""Checks that all objects of a platform are there; puts back what is missing.

``check`` fails with what is missing; ``restore`` first makes the missing objects of the
release again, from the manifest that Helm recorded, marked as Helm marks its own, and the
RuntimeClass.

Input: ``context``, ``platform``, ``release`` (``name``, ``namespace``) and ``objects`` (those that
Pulumi makes beside the release).
"""

from __future__ import annotations

import json

from facts.api import Client, ClusterError, Json, connect
from facts.presence import Expected, Kinds, lacking

from . import runtime_class
from ._program import main


async def _check(client: Client, document: Json) -> Json:
    missing = await lacking(client, document)
    if missing:
        raise ClusterError(
            "\n".join(
                f"platform {document['platform']}: {item}: missing; wanted: what the release and "
                "this program made; cure: `pulumi up` (`--refresh` for what is not of the release)"
                for item in sorted(missing, key=str)
            )
        )
    return {"platform": document["platform"], "restored": []}


async def _restore(client: Client, kinds: Kinds, item: Expected, release: Json) -> None:
    body: Json = json.loads(item.body or "{}")
    namespace = item.namespace or release["namespace"]
    where = await kinds.url(
        Expected(item.api_version, item.kind, namespace, item.name), collection=True
    )
    if where is None:
        return
    metadata = body["metadata"]
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "app.kubernetes.io/managed-by": "Helm",
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        "meta.helm.sh/release-name": release["name"],
        "meta.helm.sh/release-namespace": release["namespace"],
    }
    path, base, version = where
    await client.request("POST", path, base=base, version=version, body=body)


async def check(document: Json) -> Json:
    """All objects are there.

    Raises:
        ClusterError: each object that is missing, by name.
    """
    async with connect(document["context"]) as client:
        return await _check(client, document)


async def restore(document: Json) -> Json:
    """Makes missing objects of the release again, then checks."""
    restored = []
    async with connect(document["context"]) as client:
        kinds = Kinds(client)
        for item in await lacking(client, document):
            if item.body is not None:
                await _restore(client, kinds, item, document["release"])
                restored.append(str(item))
            elif item.kind == "RuntimeClass":
                await runtime_class.settle(client, item.name)
                restored.append(str(item))
        result = await _check(client, document)
    return {**result, "restored": sorted(restored)}


if __name__ == "__main__":
    main({"check": check, "restore": restore})
