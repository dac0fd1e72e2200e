"""What is done to a node and seen of it: the same words for real and simulated ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from lab.real import objects
from lab.real.lab import REAL, Json, Lab
from lab.simulator import marks, set_fault

Act = Callable[[Lab, str], None]
Inspect = Callable[[Lab, str], Any]

#: What the plugin logs for a critical XID (k8s-device-plugin v0.19.3, internal/rm/health.go).
WITHDRAWN = re.compile(r"XidCriticalError: Xid=79 on Device=\S+; marking device as unhealthy\.")
#: Where a driver's library goes that is missing.
AWAY = "/root/away"


def gpus(lab: Lab, node: str) -> tuple[int, int] | None:
    """Capacity and allocatable of nvidia.com/gpu."""
    return lab.offered(node).get(marks.GPU)


def plugin_pod(lab: Lab, node: str) -> tuple[str, bool]:
    """Phase and readiness of the plugin's pod."""
    pods = lab.pods(node, **objects.LABELS)
    status = pods[0]["status"] if pods else {}
    ready = any(each["ready"] for each in status.get("containerStatuses") or [])
    return status.get("phase", ""), ready


def pod_name(node: str, what: str) -> str:
    """Name of a case's pod."""
    return f"{what}-{node}"


def make(what: str, *gpus_each: int, **fields: Any) -> Act:
    """Create a pod whose containers ask for so many GPUs.

    ``resource``: of all of them, or ``resources``: of each; ``bound``: past the scheduler.
    """

    def act(lab: Lab, node: str) -> None:
        name = fields.get("resource", marks.GPU)
        pod = objects.gpu_pod(pod_name(node, what), node, gpus_each, "hold", name)
        names = fields.get("resources", ())
        for container, own in zip(pod["spec"]["containers"], names, strict=False):
            limits = container["resources"]["limits"]
            container["resources"]["limits"] = {own: limits[name]}
        if fields.get("bound"):  # past the scheduler, as static pods and old clients do
            pod["spec"]["nodeName"] = node
        lab.create(pod)

    return act


def unmake(*whats: str) -> Act:
    """Delete pods."""

    def act(lab: Lab, node: str) -> None:
        for what in whats:
            lab.delete(pod_name(node, what))

    return act


def running(what: str) -> Inspect:
    """Phase of a pod and how many of its containers are ready."""

    def inspect(lab: Lab, node: str) -> tuple[str, int]:
        status = lab.pod(pod_name(node, what))["status"]
        ready = [each for each in status.get("containerStatuses") or [] if each["ready"]]
        return status.get("phase", ""), len(ready)

    return inspect


def refused(what: str) -> Inspect:
    """Phase and reason of a pod that a kubelet doesn't admit."""

    def inspect(lab: Lab, node: str) -> tuple[str, str]:
        status = lab.pod(pod_name(node, what))["status"]
        return status.get("phase", ""), status.get("reason", "")

    return inspect


def waits(what: str) -> Inspect:
    """Why a pod isn't scheduled."""

    def inspect(lab: Lab, node: str) -> tuple[str, str, bool]:
        status = lab.pod(pod_name(node, what))["status"]
        conditions: list[Json] = status.get("conditions") or [{}]
        first = conditions[0]
        short = f"Insufficient {marks.GPU}" in first.get("message", "")
        return status.get("phase", ""), first.get("reason", ""), short

    return inspect


def withdraw(lab: Lab, node: str) -> None:
    """A critical XID on the first GPU."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.fault(0, "xid", 79)
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node, "unhealthy-gpus=1")


def heal(lab: Lab, node: str) -> None:
    """The GPU answers again; the plugin goes on."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.heal()
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node)


def both(first: Act, second: Act) -> Act:
    """Two acts, one after the other."""

    def acted(lab: Lab, node: str) -> None:
        first(lab, node)
        second(lab, node)

    return acted


def settle(act: Act) -> Act:
    """Act, then wait until a later pod has come and gone: what was going to change has."""

    def acted(lab: Lab, node: str) -> None:
        act(lab, node)
        make("later", 1)(lab, node)
        lab.wait_phase(pod_name(node, "later"), "Running")
        unmake("later")(lab, node)

    return acted


def restart_plugin(lab: Lab, node: str) -> None:
    """Delete the plugin's pod; its DaemonSet makes another one."""
    for pod in lab.pods(node, **objects.LABELS):
        lab.delete(pod["metadata"]["name"])


def says_withdrawn(lab: Lab, node: str) -> bool:
    """Whether the plugin's own words name the withdrawn device."""
    if node in REAL:
        text = lab.nodes[node].pod_log(lab.pods(node, **objects.LABELS)[0])
    else:
        text = (lab.node(node)["metadata"]["annotations"] or {}).get(marks.FAULT_MESSAGE, "")
    return WITHDRAWN.search(text) is not None


def lose_driver(lab: Lab, node: str) -> None:
    """The driver's library goes, and the plugin starts again."""
    if node in REAL:
        lab.nodes[node].run(f"mkdir -p {AWAY} && mv {lab.nodes[node].mock.library}.* {AWAY}/")
    else:
        set_fault(lab.plane.name, node, "driver-missing")
    restart_plugin(lab, node)


def regain_driver(lab: Lab, node: str) -> None:
    """The driver's library is back, and the plugin starts again."""
    if node in REAL:
        lab.nodes[node].run(f"mv {AWAY}/* {lab.nodes[node].mock.library.parent}/")
    heal(lab, node)
    restart_plugin(lab, node)


def names_nvml(lab: Lab, node: str) -> bool:
    """Whether the status of the plugin's pod names NVML's error for a driver that isn't there."""
    return "ERROR_LIBRARY_NOT_FOUND" in json.dumps(_statuses(lab, node))


def ended_by(lab: Lab, node: str) -> str:
    """Why the kubelet says that the plugin's container ended."""
    for each in _statuses(lab, node):
        for state in (each.get("lastState") or {}, each.get("state") or {}):
            if reason := (state.get("terminated") or {}).get("reason"):
                return str(reason)
    return ""


def _statuses(lab: Lab, node: str) -> list[Json]:
    pods = lab.pods(node, **objects.LABELS)
    return [each for pod in pods for each in pod["status"].get("containerStatuses") or []]


def resource(name: str) -> Inspect:
    """Capacity and allocatable of one resource."""
    return lambda lab, node: lab.offered(node).get(name)
