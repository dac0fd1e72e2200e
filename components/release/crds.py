"""Custom resource definitions that a chart brings: Helm installs them and never removes them.

``note`` says which of them are there before the chart comes; ``remove`` takes those away that came
with it and hold no object any more (Helm documentation, "Custom Resource Definitions").

Input: ``context`` and ``names``. Both read what ``note`` said last from ``PULUMI_COMMAND_STDOUT``,
where pulumi-command puts a command's earlier output: another chart has other definitions, and those
of the former are there by then without being somebody else's.
"""

from __future__ import annotations

import json
import os
from typing import Any

from components.kubernetes.api import Client, Json, Refused, connect
from components.program import main

BASE = "/apis/apiextensions.k8s.io"


async def _there(client: Client, names: list[str]) -> dict[str, Json]:
    items = await client.list("customresourcedefinitions", base=BASE)
    return {item["metadata"]["name"]: item for item in items if item["metadata"]["name"] in names}


def _noted() -> tuple[set[str], set[str]]:
    """What was noted so far: all names, and those of them that are somebody else's."""
    said = json.loads(os.environ.get("PULUMI_COMMAND_STDOUT") or "{}")
    return set(said.get("names", [])), set(said.get("foreign", []))


async def note(document: Json) -> Json:
    """The definitions that are there before a chart first brings them: they are somebody else's."""
    names, foreign = _noted()
    async with connect(document["context"]) as client:
        present = await _there(client, [name for name in document["names"] if name not in names])
    return {
        "names": sorted(names.union(document["names"])),
        "foreign": sorted(foreign.union(present)),
    }


async def remove(document: Json) -> Json:
    """Removes the definitions that were not there before and of which no object is left."""
    names, foreign = _noted()
    removed, kept = [], []
    async with connect(document["context"]) as client:
        for name, definition in (await _there(client, sorted(names))).items():
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
    main(dict[str, Any], {"note": note, "remove": remove})
