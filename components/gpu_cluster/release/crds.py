"""Program `crds`: delete CustomResourceDefinitions (CRDs) that a chart installed.

Helm installs the CRDs of a chart but never removes them (Helm documentation, "Custom Resource
Definitions"). The action `note` records which of the CRDs exist before the chart's installation.
The action `remove` deletes the CRDs that the chart installed and that have no objects left.

Input: a `DefinitionsRequest`. Both actions also read the `NotedDefinitions` that the last run
printed: a new chart version can have other CRDs, and CRDs that the previous version of the chart
installed are not foreign and must be deleted, too.
"""

from __future__ import annotations

from collections.abc import Collection

from gpu_cluster.kubernetes.api import Client, Json, Refused, connect
from gpu_cluster.platforms.requests import DefinitionsRequest, NotedDefinitions
from gpu_cluster.program import main
from gpu_cluster.requests import previous

BASE = "/apis/apiextensions.k8s.io"


async def _existing_definitions(client: Client, names: Collection[str]) -> dict[str, Json]:
    items = await client.list("customresourcedefinitions", base=BASE)
    return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}


async def note(brought: DefinitionsRequest) -> NotedDefinitions:
    """Record the CRDs that existed before the chart's installation, so that `remove` keeps them."""
    noted = previous(NotedDefinitions)
    async with connect(brought.context) as client:
        present = await _existing_definitions(client, set(brought.names).difference(noted.names))
    return NotedDefinitions(
        names=tuple(sorted({*noted.names, *brought.names})),
        foreign=tuple(sorted({*noted.foreign, *present})),
    )


async def remove(brought: DefinitionsRequest) -> Json:
    """Delete the CRDs that did not exist before the installation and that have no objects left."""
    noted = previous(NotedDefinitions)
    removed, still_used = [], []
    async with connect(brought.context) as client:
        for name, definition in (await _existing_definitions(client, noted.names)).items():
            if name in noted.foreign:
                continue
            spec = definition["spec"]
            version = next(entry["name"] for entry in spec["versions"] if entry["storage"])
            plural, base = spec["names"]["plural"], f"/apis/{spec['group']}"
            if await client.list(plural, base=base, version=version):
                still_used.append(name)
                continue
            try:
                await client.request("DELETE", f"customresourcedefinitions/{name}", base=BASE)
            except Refused as error:
                if error.code != 404:
                    raise
            removed.append(name)
    return {"removed": removed, "kept": still_used}


if __name__ == "__main__":
    main(DefinitionsRequest, {"note": note, "remove": remove})
