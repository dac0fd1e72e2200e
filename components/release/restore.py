"""Checks that all objects of a platform are there; puts back what is missing.

``check`` fails with what is missing; ``restore`` first makes the missing objects of the
release again, from the manifest that Helm recorded, marked as Helm marks its own, and the
RuntimeClass.

That record is a Secret, and what it holds would be made with the engineer's rights. So each run
says the digest of the record that the engine has just made, which the state keeps; a record that
differs from it is refused, never restored from.

Input: ``context``, ``platform``, ``release`` (``name``, ``namespace``), ``version`` of its chart,
``revision`` of the release in the state and ``objects`` (those that Pulumi makes beside the
release). ``restore`` reads what the last run said from ``PULUMI_COMMAND_STDOUT``.
"""

from __future__ import annotations

import json
import os
from typing import Any

from components.kubernetes.api import Client, ClusterError, Json, connect
from components.program import main
from components.release import runtime_class
from components.release.helm_record import DEPLOYED, Expected, Noted, Record, named, newest, note
from components.release.objects import Kinds, beside_release, lacking
from policies.faults import Fault


async def _check(client: Client, document: Json) -> Json:
    missing = await lacking(client, document)
    if missing:
        place, wanted = f"platform {document['platform']}", "what the release and this program made"
        cure = "`pulumi up` (`--refresh` for what is not of the release)"
        raise ClusterError(
            *(Fault(place, f"no {item}", wanted, cure) for item in sorted(missing, key=str))
        )
    record = await newest(client, document["release"]["name"], document["release"]["namespace"])
    if record and record.status != DEPLOYED:
        raise ClusterError(
            Fault(
                named(document["release"]),
                f"its newest record (revision {record.revision}) is {record.status}",
                DEPLOYED,
                "run `up` again: it settles what a killed run left; else `helm history` tells more",
            )
        )
    if record:
        noted = Noted(
            version=document["version"],
            objects=frozenset(map(str, beside_release(document))),
        )
        await note(client, document["release"]["name"], document["release"]["namespace"], noted)
    return {
        "platform": document["platform"],
        "restored": [],
        "record": _said(document["release"], record) if record else {},
    }


def _said(release: Json, record: Record) -> Json:
    """What a run says about the record that the engine made, and the next run holds it against."""
    return {**release, "revision": record.revision, "digest": record.digest}


async def _vouched(client: Client, document: Json) -> bool:
    """Whether the last run vouches for the release's record.

    False where the engine has since then upgraded the release, or made it in place of another
    platform's: Helm has just made all its objects.

    Raises:
        ClusterError: the record is neither that of the last run nor one that the engine made.
    """
    release, revision = document["release"], document["revision"]
    record = await newest(client, release["name"], release["namespace"])
    last = json.loads(os.environ.get("PULUMI_COMMAND_STDOUT") or "{}").get("record", {})
    another = any(last.get(key) != release[key] for key in ("namespace", "name"))
    if record is None or (
        record.revision == revision and (another or last["revision"] != revision)
    ):
        return False
    if _said(release, record) != last:
        raise ClusterError(
            Fault(
                named(release),
                f"a record (revision {record.revision}) that this stack did not make",
                f"revision {last.get('revision')} as the last run left it",
                f"`helm history -n {release['namespace']} {release['name']}`, remove what is not "
                "yours, or take it over by `pulumi up --refresh`",
            )
        )
    return True


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
    """Makes missing objects of the release again, then checks.

    Raises:
        ClusterError: what can't be made again, or a record that nobody vouches for.
    """
    restored = []
    async with connect(document["context"]) as client:
        kinds = Kinds(client)
        vouched = await _vouched(client, document)
        for item in await lacking(client, document):
            if item.body is not None and vouched:
                await _restore(client, kinds, item, document["release"])
                restored.append(str(item))
            elif item.kind == "RuntimeClass":
                await runtime_class.settle(client, item.name)
                restored.append(str(item))
        result = await _check(client, document)
    return {**result, "restored": sorted(restored)}


if __name__ == "__main__":
    main(dict[str, Any], {"check": check, "restore": restore})
