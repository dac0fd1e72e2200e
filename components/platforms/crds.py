"""Custom resource definitions that a chart brings: Helm installs them and never removes them.

``note`` says which of them are there before the chart comes; ``remove`` takes those away that came
with it and hold no object any more (Helm documentation, "Custom Resource Definitions").

Input: ``context`` and ``names``. ``remove`` reads what ``note`` said from
``PULUMI_COMMAND_STDOUT``, where pulumi-command puts a command's earlier output.
"""

from __future__ import annotations

import json
import os

from components.api import Client, Json, Refused, connect
from components.program import main

BASE = "/apis/apiextensions.k8s.io"


async def _there(client: Client, names: list[str]) -> dict[str, Json]:
    items = await client.list("customresourcedefinitions", base=BASE)
    return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}


async def note(document: Json) -> Json:
    """The definitions of these names that are there already: they are somebody else's."""
    async with connect(document["context"]) as client:
        return {"foreign": sorted(await _there(client, document["names"]))}


async def remove(document: Json) -> Json:
    """Removes the definitions that were not there before and of which no object is left."""
    foreign = json.loads(os.environ.get("PULUMI_COMMAND_STDOUT") or "{}").get("foreign", [])
    removed, kept = [], []
    async with connect(document["context"]) as client:
        for name, definition in (await _there(client, document["names"])).items():
            if name in foreign:
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
    main({"note": note, "remove": remove})
