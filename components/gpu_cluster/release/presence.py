"""Program `presence`: check that all objects of a platform exist, and restore missing objects.

The action `check` fails with the names of missing objects. The action `restore` first creates the
missing objects of the release again, from the manifest in Helm's record and with Helm's ownership
labels, and also the RuntimeClass. It gives fields that somebody edited the recorded values.

The record is a Secret, and its content would be created with the engineer's permissions. Therefore
each run prints the digest of the record that Pulumi has just created, and the Pulumi state keeps
it. If a record differs from this digest, nothing is restored from the record.

Input: a `PresenceRequest`. `restore` reads the `PresenceResult` of the last run.
"""

from __future__ import annotations

import json
from dataclasses import replace

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused, connect
from gpu_cluster.kubernetes.managers import HELM_NAMESPACE, HELM_RELEASE
from gpu_cluster.platforms.requests import Expected, HelmRelease, PresenceRequest, PresenceResult
from gpu_cluster.program import main
from gpu_cluster.release import runtime_class
from gpu_cluster.release.definitions import dropped
from gpu_cluster.release.field_edits import field_edits, merge_patch, release_manager, repaired
from gpu_cluster.release.helm_record import DEPLOYED, MERGE, Noted, newest, note
from gpu_cluster.release.objects import Kinds, observe_objects, placed
from gpu_cluster.requests import previous
from gpu_rules.faults import Fault

CONFLICT = 409
"""Status of a write that others preceded (Kubernetes API conventions, "Concurrency Control")."""
ATTEMPTS = 5
"""Maximum number of writes of an object that others change, too."""


async def _check_presence(client: Client, request: PresenceRequest) -> PresenceResult:
    missing = (await observe_objects(client, request)).missing
    if missing:
        place = f"platform {request.platform}"
        source = "all objects of the release and of this program"
        cure = "run `pulumi up`; add `--refresh` if the object is not of the release"
        raise ClusterError(
            *(Fault(place, f"no {item}", source, cure) for item in sorted(missing, key=str))
        )
    release = request.release
    if release is None:
        return PresenceResult(platform=request.platform)
    record = await newest(client, release)
    if record and record.status != DEPLOYED:
        raise ClusterError(
            Fault(
                str(release),
                f"status {record.status} in the newest Helm record (revision {record.revision})",
                DEPLOYED,
                "run `up` again: it cleans up after a killed run; otherwise check `helm history`",
            )
        )
    if record and (lost := await dropped(client, record.objects(), release.namespace)):
        raise ClusterError(*lost)
    if record:
        noted = Noted(version=request.version, objects=frozenset(map(str, request.objects)))
        await note(client, release, noted)
    return PresenceResult(platform=request.platform, record=record.of(release) if record else None)


async def _is_vouched(client: Client, request: PresenceRequest) -> bool:
    """Return True if Helm's record of the release is the one that the last run verified.

    Return False if Pulumi has upgraded the release since then, or has installed it in place of
    another platform; Helm has then just created all objects.

    Raises:
        ClusterError: The record comes neither from the last run nor from Pulumi.
    """
    release, last = request.release, previous(PresenceResult).record
    if release is None:
        return False
    record = await newest(client, release)
    fresh = (release.namespace, release.name, request.revision)
    is_same_release = last is not None and (last.namespace, last.name, last.revision) == fresh
    if record is None or (record.revision == request.revision and not is_same_release):
        return False
    if record.of(release) != last:
        raise ClusterError(
            Fault(
                str(release),
                f"a Helm record (revision {record.revision}) that this stack did not create",
                f"revision {last.revision if last else None} as the last run left it",
                f"see `helm history -n {release.namespace} {release.name}`; remove the foreign "
                "revision, or take it over by `pulumi up --refresh`",
            )
        )
    return True


async def _restore(client: Client, kinds: Kinds, item: Expected, release: HelmRelease) -> None:
    body: Json = json.loads(item.body or "{}")
    namespace = item.namespace or release.namespace
    location = await kinds.url(replace(item, namespace=namespace), collection=True)
    if location is None:
        return
    metadata = body["metadata"]
    metadata["labels"] = {
        **(metadata.get("labels") or {}),
        "app.kubernetes.io/managed-by": "Helm",
    }
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        HELM_RELEASE: release.name,
        HELM_NAMESPACE: release.namespace,
    }
    path, base, version = location
    await client.request("POST", path, base=base, version=version, body=body)


async def _repair(client: Client, kinds: Kinds, item: Expected) -> None:
    """Give the edited fields of an object the values that the release rendered.

    Raises:
        Refused: The API server rejected the object, or others changed it each time.
    """
    location = await kinds.url(item)
    if location is None:
        return
    path, base, version = location
    for attempt in range(ATTEMPTS):
        live = await client.request("GET", path, base=base, version=version)
        edits = field_edits(json.loads(item.body or "{}"), live)
        if not edits:
            return
        try:
            await client.request(
                "PATCH",
                path,
                base=base,
                version=version,
                body=merge_patch(live, repaired(live, edits)),
                content_type=MERGE,
                params={"fieldManager": release_manager(live)},
            )
        except Refused as error:
            if error.code != CONFLICT or attempt == ATTEMPTS - 1:
                raise


async def check(request: PresenceRequest) -> PresenceResult:
    """Check that all objects exist.

    Raises:
        ClusterError: Objects are missing or lack applied fields; the error names each of them.
    """
    async with connect(request.context) as client:
        return await _check_presence(client, request)


async def restore(request: PresenceRequest) -> PresenceResult:
    """Create missing objects of the release again, and repair edited objects; then check all.

    Raises:
        ClusterError: An object can't be restored, or the record has an unknown digest.
    """
    restored = []
    async with connect(request.context) as client:
        kinds = Kinds(client)
        vouched = await _is_vouched(client, request)
        observed = await observe_objects(client, request)
        for item in observed.missing:
            if item.body is not None and vouched and request.release:
                await _restore(client, kinds, item, request.release)
                restored.append(str(item))
            elif item.kind == "RuntimeClass":
                await runtime_class.settle(client, item.name)
                restored.append(str(item))
        if vouched and request.release:
            for item in observed.edited:
                await _repair(client, kinds, placed(item, request.release))
                restored.append(str(item))
        result = await _check_presence(client, request)
    return replace(result, restored=tuple(sorted(restored)))


if __name__ == "__main__":
    main(PresenceRequest, {"check": check, "restore": restore})
