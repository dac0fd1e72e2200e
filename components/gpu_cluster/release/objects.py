"""Find the objects of a platform that are missing in the cluster, or that somebody edited.

The objects come from Helm's record of the release, so the search works for every version of a
chart, and from this program's extra objects. Helm itself does not check the objects after the
installation. The validation, not this module, checks that the platform's pods work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpu_cluster.kubernetes.api import Client, ClusterError, Json, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.platforms.requests import Expected, HelmRelease, PresenceRequest
from gpu_cluster.release.field_edits import FieldEdit, field_edits
from gpu_cluster.release.helm_record import newest
from gpu_rules.faults import Fault


@dataclass(frozen=True, kw_only=True)
class ObjectsSeen:
    """Objects of a platform that are not as the last run left them.

    Attributes:
        missing: Objects that do not exist in the cluster.
        edited: Edited fields of the release's objects.
    """

    missing: tuple[Expected, ...] = ()
    edited: Mapping[Expected, tuple[FieldEdit, ...]] = field(default_factory=dict)


class Kinds:
    """Cache of the URL paths of object kinds; it reads each API version from the cluster once."""

    def __init__(self, client: Client) -> None:
        """Create an empty cache."""
        self._client = client
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    async def url(self, item: Expected, *, collection: bool = False) -> tuple[str, str, str] | None:
        """Return the path, base and version of an object's URL; None if its kind is not served.

        Args:
            item: The object.
            collection: True for the URL of the object's collection.
        """
        group, _, version = item.api_version.rpartition("/")
        base = f"/apis/{group}" if group else ""
        if item.api_version not in self._known:
            try:
                discovery = await self._client.request("GET", "", base=base, version=version)
            except Refused as error:
                if error.code != 404:
                    raise
                discovery = {"resources": []}
            self._known[item.api_version] = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in discovery["resources"]
                if "/" not in resource["name"]
            }
        served = self._known[item.api_version].get(item.kind)
        if served is None:
            return None
        plural, namespaced = served
        path = f"namespaces/{item.namespace}/{plural}" if namespaced else plural
        return path if collection else f"{path}/{item.name}", base, version


async def observe_objects(client: Client, request: PresenceRequest) -> ObjectsSeen:
    """Return the objects that are missing in the cluster, and the edits of the others.

    Args:
        request: Objects that must exist.

    Raises:
        ClusterError: Helm has no record of the release.
    """
    release = request.release
    record = await newest(client, release) if release else None
    if release and record is None:
        raise ClusterError(
            Fault(
                str(release),
                "no Helm record",
                "the release of the platform",
                "run `pulumi up --refresh`",
            )
        )
    items = [*(record.objects() if record else ()), *request.objects]
    kinds = Kinds(client)
    # The loop is sequential, so that only the first object of an API version causes a request.
    for item in items:
        await kinds.url(item)

    async def read(item: Expected) -> Json | None:
        location = await kinds.url(placed(item, release))
        return await _read_live(client, location) if location else None

    live_objects = dict(zip(items, await gather(read, items), strict=True))
    edits = {
        item: edited
        for item, live in live_objects.items()
        if live is not None and item.body is not None
        if (edited := field_edits(json.loads(item.body), live))
    }
    return ObjectsSeen(
        missing=tuple(i for i, live in live_objects.items() if live is None), edited=edits
    )


def placed(item: Expected, release: HelmRelease | None) -> Expected:
    """Return an object with the namespace of its release if its manifest has none, as Helm does."""
    return replace(item, namespace=item.namespace or (release.namespace if release else ""))


async def _read_live(client: Client, location: tuple[str, str, str]) -> Json | None:
    path, base, version = location
    try:
        live: Json = await client.request("GET", path, base=base, version=version)
    except Refused as error:
        if error.code != 404:
            raise
        return None
    return live
