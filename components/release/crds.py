"""Custom resource definitions that a chart brings: Helm installs them and never removes them.

``note`` says which of them are there before the chart comes; ``remove`` takes those away that came
with it and hold no object any more (Helm documentation, "Custom Resource Definitions").

Input: a `DefinitionsRequest`. Both read the `NotedDefinitions` of the last run: another chart has
other definitions, and those of the former are there by then without being somebody else's.
"""

from __future__ import annotations

from collections.abc import Collection

from components.kubernetes.api import Client, Json, Refused, connect
from components.platforms.requests import DefinitionsRequest, NotedDefinitions
from components.program import main
from components.requests import previous

BASE = "/apis/apiextensions.k8s.io"


async def _there(client: Client, names: Collection[str]) -> dict[str, Json]:
    items = await client.list("customresourcedefinitions", base=BASE)
    return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}


async def note(brought: DefinitionsRequest) -> NotedDefinitions:
    """The definitions that are there before a chart first brings them: they are somebody else's."""
    noted = previous(NotedDefinitions)
    async with connect(brought.context) as client:
        present = await _there(client, set(brought.names).difference(noted.names))
    return NotedDefinitions(
        names=tuple(sorted({*noted.names, *brought.names})),
        foreign=tuple(sorted({*noted.foreign, *present})),
    )


async def remove(brought: DefinitionsRequest) -> Json:
    """Removes the definitions that were not there before and of which no object is left."""
    noted = previous(NotedDefinitions)
    removed, kept = [], []
    async with connect(brought.context) as client:
        for name, definition in (await _there(client, noted.names)).items():
            if name in noted.foreign:
                continue
            spec = definition["spec"]
            version = next(entry["name"] for entry in spec["versions"] if entry["storage"])
            plural, base = spec["names"]["plural"], f"/apis/{spec['group']}"
            if await client.list(plural, base=base, version=version):
                kept.append(name)
                continue
            try:
                await client.request("DELETE", f"customresourcedefinitions/{name}", base=BASE)
            except Refused as error:
                if error.code != 404:
                    raise
            removed.append(name)
    return {"removed": removed, "kept": kept}


if __name__ == "__main__":
    main(DefinitionsRequest, {"note": note, "remove": remove})
