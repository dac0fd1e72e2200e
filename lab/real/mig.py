"""MIG devices on real and simulated nodes."""

from __future__ import annotations

import json

from gpu_cluster_lab.simulator import marks
from lab.real import objects
from lab.real.behaviours import Act, Inspect
from lab.real.lab import REAL, Json, Lab

#: Device plugin flags that this project's host preparation requires for a stack whose nodes use
#: MIG.
PLUGIN = {"deviceListStrategy": "volume-mounts"}


def divides(**counts: int) -> Act:
    """Return a function that partitions each GPU of a node into MIG devices.

    Args:
        counts: Number of MIG devices by profile. The profile 1g.10gb is written `p1g_10gb`, so that
            it can be a keyword argument. Without profiles, MIG is disabled.
    """
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
    """Return the device plugin settings of a stack with this MIG strategy."""
    return {"flags": {"migStrategy": strategy, "plugin": PLUGIN}}


def parts(entry: Json) -> tuple[int, list[int]]:
    """Return the number of simulated GPUs in a validation result, and the MIG devices per GPU."""
    return entry["simulated"], [len(instances) for instances in entry["devices"].values()]


def refuses(words: str) -> Inspect:
    """Return a function that checks whether the device plugin failed with this error text."""

    def inspect(lab: Lab, node: str) -> bool:
        pods = lab.pods(node, **objects.LABELS)
        statuses = [
            container for pod in pods for container in pod["status"].get("containerStatuses") or []
        ]
        return words in json.dumps(statuses)

    return inspect
