"""Actions on nodes and observations of nodes, the same for real and simulated nodes."""

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

#: Log line of the plugin for a critical XID (k8s-device-plugin v0.19.3, internal/rm/health.go).
WITHDRAWN = re.compile(r"XidCriticalError: Xid=79 on Device=\S+; marking device as unhealthy\.")
#: Folder to which the driver's library is moved to simulate a missing driver.
AWAY = "/root/away"


def gpus(lab: Lab, node: str) -> tuple[int, int] | None:
    """Return the capacity and the allocatable amount of nvidia.com/gpu on a node."""
    return lab.offered(node).get(marks.GPU)


def plugin_pod(lab: Lab, node: str) -> tuple[str, bool]:
    """Return the phase of the plugin's pod and whether the pod is ready."""
    pods = lab.pods(node, **objects.LABELS)
    status = pods[0]["status"] if pods else {}
    ready = any(each["ready"] for each in status.get("containerStatuses") or [])
    return status.get("phase", ""), ready


def pod_name(node: str, what: str) -> str:
    """Return the name of a case's pod."""
    return f"{what}-{node}"


def make(what: str, *gpus_each: int, **fields: Any) -> Act:
    """Return an action that creates a pod, with one container for each requested number of GPUs.

    Args:
        what: Short name of the pod.
        gpus_each: Number of GPUs that each container requests.
        fields: `resource`: name of the resource for all containers; `resources`: a name for each
            container; `bound`: true to bind the pod to the node without the scheduler.
    """

    def act(lab: Lab, node: str) -> None:
        name = fields.get("resource", marks.GPU)
        pod = objects.gpu_pod(pod_name(node, what), node, gpus_each, "hold", name)
        names = fields.get("resources", ())
        for container, own in zip(pod["spec"]["containers"], names, strict=False):
            limits = container["resources"]["limits"]
            container["resources"]["limits"] = {own: limits[name]}
        # Bind the pod without the scheduler, like static pods and old clients do.
        if fields.get("bound"):
            pod["spec"]["nodeName"] = node
        lab.create(pod)

    return act


def unmake(*whats: str) -> Act:
    """Return an action that deletes pods."""

    def act(lab: Lab, node: str) -> None:
        for what in whats:
            lab.delete(pod_name(node, what))

    return act


def running(what: str) -> Inspect:
    """Return an observation of a pod's phase and its number of ready containers."""

    def inspect(lab: Lab, node: str) -> tuple[str, int]:
        status = lab.pod(pod_name(node, what))["status"]
        ready = [each for each in status.get("containerStatuses") or [] if each["ready"]]
        return status.get("phase", ""), len(ready)

    return inspect


def refused(what: str) -> Inspect:
    """Return an observation of phase and reason of a pod that the kubelet rejects."""

    def inspect(lab: Lab, node: str) -> tuple[str, str]:
        status = lab.pod(pod_name(node, what))["status"]
        return status.get("phase", ""), status.get("reason", "")

    return inspect


def waits(what: str) -> Inspect:
    """Return an observation of why a pod isn't scheduled."""

    def inspect(lab: Lab, node: str) -> tuple[str, str, bool]:
        status = lab.pod(pod_name(node, what))["status"]
        conditions: list[Json] = status.get("conditions") or [{}]
        first = conditions[0]
        short = f"Insufficient {marks.GPU}" in first.get("message", "")
        return status.get("phase", ""), first.get("reason", ""), short

    return inspect


def withdraw(lab: Lab, node: str) -> None:
    """Simulate a critical XID on the node's first GPU, so that the plugin marks it as unhealthy."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.fault(0, "xid", 79)
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node, "unhealthy-gpus=1")


def heal(lab: Lab, node: str) -> None:
    """Remove all faults of the node's GPUs; the plugin keeps running."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.heal()
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node)


def both(first: Act, second: Act) -> Act:
    """Return an action that runs two actions in order."""

    def acted(lab: Lab, node: str) -> None:
        first(lab, node)
        second(lab, node)

    return acted


def settle(act: Act) -> Act:
    """Return an action that acts, then waits until a later pod has run and was deleted.

    By then every change that the action causes has happened.
    """

    def acted(lab: Lab, node: str) -> None:
        act(lab, node)
        make("later", 1)(lab, node)
        lab.wait_phase(pod_name(node, "later"), "Running")
        unmake("later")(lab, node)

    return acted


def restart_plugin(lab: Lab, node: str) -> None:
    """Delete the plugin's pod; its DaemonSet creates a new pod."""
    for pod in lab.pods(node, **objects.LABELS):
        lab.delete(pod["metadata"]["name"])


def says_withdrawn(lab: Lab, node: str) -> bool:
    """Check that the plugin's log or message names the unhealthy device."""
    if node in REAL:
        text = lab.nodes[node].pod_log(lab.pods(node, **objects.LABELS)[0])
    else:
        text = (lab.node(node)["metadata"]["annotations"] or {}).get(marks.FAULT_MESSAGE, "")
    return WITHDRAWN.search(text) is not None


def lose_driver(lab: Lab, node: str) -> None:
    """Move the driver's library away and restart the plugin."""
    if node in REAL:
        lab.nodes[node].run(f"mkdir -p {AWAY} && mv {lab.nodes[node].mock.library}.* {AWAY}/")
    else:
        set_fault(lab.plane.name, node, "driver-missing")
    restart_plugin(lab, node)


def regain_driver(lab: Lab, node: str) -> None:
    """Move the driver's library back and restart the plugin."""
    if node in REAL:
        lab.nodes[node].run(f"mv {AWAY}/* {lab.nodes[node].mock.library.parent}/")
    heal(lab, node)
    restart_plugin(lab, node)


def names_nvml(lab: Lab, node: str) -> bool:
    """Check that the status of the plugin's pod has NVML's error for a missing driver."""
    return "ERROR_LIBRARY_NOT_FOUND" in json.dumps(_statuses(lab, node))


def ended_by(lab: Lab, node: str) -> str:
    """Return the kubelet's reason for the end of the plugin's container."""
    for each in _statuses(lab, node):
        for state in (each.get("lastState") or {}, each.get("state") or {}):
            if reason := (state.get("terminated") or {}).get("reason"):
                return str(reason)
    return ""


def _statuses(lab: Lab, node: str) -> list[Json]:
    pods = lab.pods(node, **objects.LABELS)
    return [each for pod in pods for each in pod["status"].get("containerStatuses") or []]


def resource(name: str) -> Inspect:
    """Return an observation of capacity and allocatable of one resource."""
    return lambda lab, node: lab.offered(node).get(name)
