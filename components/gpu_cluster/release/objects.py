"""Find the objects of a platform that are missing in the cluster.

The objects come from Helm's record of the release, so the search works for every version of a
chart, and from this program's extra objects. Helm itself does not check the objects after the
installation. The validation, not this module, checks that the platform's pods work.
"""

from __future__ import annotations

from dataclasses import replace

from gpu_cluster.kubernetes.api import Client, ClusterError, Refused
from gpu_cluster.kubernetes.gather import gather
from gpu_cluster.platforms.requests import Expected, PresenceRequest
from gpu_cluster.release.helm_record import newest
from gpu_rules.faults import Fault


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
                answer = await self._client.request("GET", "", base=base, version=version)
            except Refused as error:
                if error.code != 404:
                    raise
                answer = {"resources": []}
            self._known[item.api_version] = {
                resource["kind"]: (resource["name"], resource["namespaced"])
                for resource in answer["resources"]
                if "/" not in resource["name"]
            }
        served = self._known[item.api_version].get(item.kind)
        if served is None:
            return None
        plural, namespaced = served
        path = f"namespaces/{item.namespace}/{plural}" if namespaced else plural
        return path if collection else f"{path}/{item.name}", base, version


async def lacking(client: Client, wanted: PresenceRequest) -> list[Expected]:
    """Return the objects that are missing in the cluster.

    Args:
        wanted: Objects that must exist.

    Raises:
        ClusterError: Helm has no record of the release.
    """
    release = wanted.release
    record = await newest(client, release) if release else None
    if release and record is None:
        raise ClusterError(
            Fault(
                str(release), "no record of it", "the platform's release", "`pulumi up --refresh`"
            )
        )
    items = [*(record.objects() if record else ()), *wanted.objects]
    kinds = Kinds(client)
    # The loop is sequential, so that only the first object of an API version causes a request.
    for item in items:
        await kinds.url(item)

    async def missing(item: Expected) -> bool:
        # Helm's manifest omits the namespace of objects in the release's own namespace.
        namespace = item.namespace or (release.namespace if release else "")
        where = await kinds.url(replace(item, namespace=namespace))
        if where is None:
            return True
        path, base, version = where
        try:
            await client.request("GET", path, base=base, version=version)
        except Refused as error:
            if error.code != 404:
                raise
            return True
        return False

    absent = await gather(missing, items)
    return [item for item, gone in zip(items, absent, strict=True) if gone]
