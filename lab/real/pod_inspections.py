"""Functions that read pod statuses."""

from __future__ import annotations

from gpu_cluster_lab.simulator import marks
from lab.real.behaviours import Inspect, pod_name
from lab.real.lab import Json, Lab


def ends(shown: Json, kind: str = "containerStatuses") -> list[tuple[int, str]]:
    """Return the exit code and reason of each container that has ended."""
    states = [each.get("state", {}).get("terminated") for each in shown.get(kind) or []]
    return [(each["exitCode"], each["reason"]) for each in states if each]


def init_ends(shown: Json) -> list[tuple[int, str]]:
    """Return the exit code and reason of each init container that has ended."""
    return ends(shown, "initContainerStatuses")


def short_of(what: str, resource: str = marks.GPU) -> Inspect:
    """Return a function that reads whether a pod is pending for lack of a resource."""

    def inspect(lab: Lab, node: str) -> tuple[str, bool]:
        shown = lab.pod(pod_name(node, what))["status"]
        message = (shown.get("conditions") or [{}])[0].get("message", "")
        return shown.get("phase", ""), f"Insufficient {resource}" in message

    return inspect
