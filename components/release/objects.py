"""Which objects of a platform are missing.

What a platform consists of is read from the release that Helm recorded, so that it holds for every
version of a chart, with the objects that this program makes beside it. Helm itself never looks
again. Whether its pods do their work is the validation's to say, which knows the nodes.
"""

from __future__ import annotations

from dataclasses import replace

from components.kubernetes.api import Client, ClusterError, Refused
from components.kubernetes.gather import gather
from components.platforms.requests import Expected, PresenceRequest
from components.release.helm_record import newest
from policies.faults import Fault


class Kinds:
    """Where the API server serves each kind; asked once per API version."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[str, dict[str, tuple[str, bool]]] = {}

    async def url(self, item: Expected, *, collection: bool = False) -> tuple[str, str, str] | None:
        """Path, base and version of an object; None where its kind is not served."""
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
    """The objects that are missing.

    Args:
        client: of the cluster.
        wanted: what must be there.

    Raises:
        ClusterError: there is no record of the release at all.
    """
    release = wanted.release
    record = await newest(client, release)
    if record is None:
        raise ClusterError(
            Fault(
                str(release), "no record of it", "the platform's release", "`pulumi up --refresh`"
            )
        )
    items = [*record.objects(), *wanted.objects]
    kinds = Kinds(client)
    for item in items:  # one by one: each asks for its API version only the first time
        await kinds.url(item)

    async def missing(item: Expected) -> bool:
        # Helm leaves the namespace out where it is the release's own.
        where = await kinds.url(
            item if item.namespace else replace(item, namespace=release.namespace)
        )
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
