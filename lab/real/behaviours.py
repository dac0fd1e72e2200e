"""Functions that act on nodes or observe nodes, the same for real and simulated nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from gpu_cluster_lab.simulator import marks, set_fault
from lab.real import objects
from lab.real.lab import REAL, Json, Lab

Act = Callable[[Lab, str], None]
Inspect = Callable[[Lab, str], Any]

#: Log line of the device plugin for a critical XID (k8s-device-plugin v0.19.3,
#: internal/rm/health.go).
WITHDRAWN = re.compile(r"XidCriticalError: Xid=79 on Device=\S+; marking device as unhealthy\.")
#: Folder to which the driver's library is moved to simulate a missing driver.
AWAY = "/root/away"


def gpus(lab: Lab, node: str) -> tuple[int, int] | None:
    """Return the capacity and the allocatable amount of nvidia.com/gpu on a node."""
    return lab.offered(node).get(marks.GPU)


def plugin_pod(lab: Lab, node: str) -> tuple[str, bool]:
    """Return the phase of a node's device plugin pod, and whether the pod is ready."""
    pods = lab.pods(node, **objects.LABELS)
    status = pods[0]["status"] if pods else {}
    ready = any(container["ready"] for container in status.get("containerStatuses") or [])
    return status.get("phase", ""), ready


def pod_name(node: str, purpose: str) -> str:
    """Return the name of the pod that tests something on a node, such as `shared-gpu-1`."""
    return f"{purpose}-{node}"


def make(purpose: str, *gpus_each: int, **fields: Any) -> Act:
    """Return a function that creates a pod with one container for each number in `gpus_each`.

    Args:
        purpose: Short name of the pod.
        gpus_each: Number of GPUs that each container requests.
        fields: `resource`: name of the resource for all containers; `resources`: a name for each
            container; `bound`: true to bind the pod to the node without the scheduler.
    """

    def act(lab: Lab, node: str) -> None:
        name = fields.get("resource", marks.GPU)
        pod = objects.gpu_pod(pod_name(node, purpose), node, gpus_each, "hold", name)
        names = fields.get("resources", ())
        for container, resource_name in zip(pod["spec"]["containers"], names, strict=False):
            limits = container["resources"]["limits"]
            container["resources"]["limits"] = {resource_name: limits[name]}
        # Bind the pod without the scheduler, like static pods and old clients do.
        if fields.get("bound"):
            pod["spec"]["nodeName"] = node
        lab.create(pod)

    return act


def unmake(*whats: str) -> Act:
    """Return a function that deletes the test pods `whats` of a node."""

    def act(lab: Lab, node: str) -> None:
        for purpose in whats:
            lab.delete(pod_name(node, purpose))

    return act


def running(purpose: str) -> Inspect:
    """Return a function that reads a pod's phase and its number of ready containers."""

    def inspect(lab: Lab, node: str) -> tuple[str, int]:
        status = lab.pod(pod_name(node, purpose))["status"]
        ready = [
            container for container in status.get("containerStatuses") or [] if container["ready"]
        ]
        return status.get("phase", ""), len(ready)

    return inspect


def refused(purpose: str) -> Inspect:
    """Return a function that reads phase and reason of a pod that the kubelet rejects."""

    def inspect(lab: Lab, node: str) -> tuple[str, str]:
        status = lab.pod(pod_name(node, purpose))["status"]
        return status.get("phase", ""), status.get("reason", "")

    return inspect


def waits(purpose: str) -> Inspect:
    """Return a function that reads why a pod isn't scheduled."""

    def inspect(lab: Lab, node: str) -> tuple[str, str, bool]:
        status = lab.pod(pod_name(node, purpose))["status"]
        conditions: list[Json] = status.get("conditions") or [{}]
        first = conditions[0]
        short = f"Insufficient {marks.GPU}" in first.get("message", "")
        return status.get("phase", ""), first.get("reason", ""), short

    return inspect


def withdraw(lab: Lab, node: str) -> None:
    """Simulate a critical XID on a node's first GPU; the device plugin then marks it unhealthy."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.fault(0, "xid", 79)
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node, "unhealthy-gpus=1")


def heal(lab: Lab, node: str) -> None:
    """Remove all simulated faults of the node's GPUs; the device plugin keeps running."""
    if node in REAL:
        real = lab.nodes[node]
        real.mock.heal()
        real.mock.write(real.state)
    else:
        set_fault(lab.plane.name, node)


def both(first: Act, second: Act) -> Act:
    """Return a function that calls two functions in order."""

    def acted(lab: Lab, node: str) -> None:
        first(lab, node)
        second(lab, node)

    return acted


def settle(act: Act) -> Act:
    """Return a function that calls `act` and waits until the effects of `act` are complete.

    To wait, it creates another pod, which can only run after all earlier changes of the node, and
    deletes this pod.
    """

    def acted(lab: Lab, node: str) -> None:
        act(lab, node)
        make("later", 1)(lab, node)
        lab.wait_phase(pod_name(node, "later"), "Running")
        unmake("later")(lab, node)

    return acted


def restart_plugin(lab: Lab, node: str) -> None:
    """Delete the node's device plugin pod; its DaemonSet then creates a new pod."""
    for pod in lab.pods(node, **objects.LABELS):
        lab.delete(pod["metadata"]["name"])


def says_withdrawn(lab: Lab, node: str) -> bool:
    """Check that the log of the device plugin names the unhealthy GPU.

    A simulated node has this log message in an annotation.
    """
    if node in REAL:
        text = lab.nodes[node].pod_log(lab.pods(node, **objects.LABELS)[0])
    else:
        text = (lab.node(node)["metadata"]["annotations"] or {}).get(marks.FAULT_MESSAGE, "")
    return WITHDRAWN.search(text) is not None


def lose_driver(lab: Lab, node: str) -> None:
    """Move the NVIDIA driver's library away and restart the device plugin."""
    if node in REAL:
        lab.nodes[node].run(f"mkdir -p {AWAY} && mv {lab.nodes[node].mock.library}.* {AWAY}/")
    else:
        set_fault(lab.plane.name, node, "driver-missing")
    restart_plugin(lab, node)


def regain_driver(lab: Lab, node: str) -> None:
    """Move the NVIDIA driver's library back and restart the device plugin."""
    if node in REAL:
        lab.nodes[node].run(f"mv {AWAY}/* {lab.nodes[node].mock.library.parent}/")
    heal(lab, node)
    restart_plugin(lab, node)


def names_nvml(lab: Lab, node: str) -> bool:
    """Check that the status of the device plugin's pod has NVML's error for a missing driver."""
    return "ERROR_LIBRARY_NOT_FOUND" in json.dumps(_container_statuses(lab, node))


def ended_by(lab: Lab, node: str) -> str:
    """Return the reason that the kubelet reports for the end of the device plugin's container."""
    for container in _container_statuses(lab, node):
        for state in (container.get("lastState") or {}, container.get("state") or {}):
            if reason := (state.get("terminated") or {}).get("reason"):
                return str(reason)
    return ""


def _container_statuses(lab: Lab, node: str) -> list[Json]:
    pods = lab.pods(node, **objects.LABELS)
    return [container for pod in pods for container in pod["status"].get("containerStatuses") or []]


def resource(name: str) -> Inspect:
    """Return a function that reads capacity and allocatable amount of one resource of a node."""
    return lambda lab, node: lab.offered(node).get(name)
