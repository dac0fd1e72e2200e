"""MIG devices on both kinds of nodes."""

from __future__ import annotations

import json

from lab.real import objects
from lab.real.behaviours import Act, Inspect
from lab.real.lab import REAL, Json, Lab
from lab.simulator import marks

#: A device list as our preparation wants it, for a stack whose nodes have MIG.
PLUGIN = {"deviceListStrategy": "volume-mounts"}


def divides(**counts: int) -> Act:
    """Divide each GPU: so many MIG devices by profile, ``_`` for its dot; none: whole again."""
    profiles = {name.removeprefix("p").replace("_", "."): count for name, count in counts.items()}

    def act(lab: Lab, node: str) -> None:
        if node in REAL:
            names = [name for name, count in profiles.items() for _ in range(count)]
            lab.nodes[node].divide(*names)
        else:
            text = ",".join(f"{name}={count}" for name, count in profiles.items())
            notes = {"metadata": {"annotations": {marks.MIG: text or None}}}
            lab.request("PATCH", f"/api/v1/nodes/{node}", notes)

    return act


def flags(strategy: str) -> Json:
    """The plugin's flags of a stack."""
    return {"flags": {"migStrategy": strategy, "plugin": PLUGIN}}


def parts(entry: Json) -> tuple[int, list[int]]:
    """GPUs that count as simulated, and how many MIG devices of each are in the record."""
    return entry["simulated"], [len(found) for found in entry["devices"].values()]


def refuses(words: str) -> Inspect:
    """Whether the plugin ends with these words."""

    def inspect(lab: Lab, node: str) -> bool:
        pods = lab.pods(node, **objects.LABELS)
        statuses = [each for pod in pods for each in pod["status"].get("containerStatuses") or []]
        return words in json.dumps(statuses)

    return inspect
