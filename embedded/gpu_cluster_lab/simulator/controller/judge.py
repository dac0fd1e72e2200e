"""Decide which status the pods and GPU resources of a simulated node get. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_cluster_lab.simulator import faults, logs, marks, stages
from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import (
    Device,
    Resources,
    count,
    devices,
    gpu_uuid,
    strategy_of,
    whole,
)
from gpu_cluster_lab.simulator.controller.offered import CONFIG_LABEL, Plugin, owned, read_plugin


@dataclass
class Node:
    """State of a simulated node, from the Node object at resource version `version`."""

    version: int = field(compare=False)
    name: str
    gpus: int
    host: str | None
    faults: faults.Faults
    capacity: Resources
    allocatable: Resources
    message: str
    config: str = ""
    mig: Resources = field(default_factory=dict)
    registered: str = ""


@dataclass(frozen=True)
class Pod:
    """Device plugin, toolkit or validation pod, as stored at resource version `version`."""

    version: int
    uid: str
    name: str
    namespace: str
    node: str
    is_plugin: bool
    is_validation: bool
    is_toolkit: bool
    phase: str
    ready: bool
    outcome: str
    message: str
    plugin: Plugin
    object: Json = field(repr=False)

    @property
    def path(self) -> str:
        """Return the API path of the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def read_node(item: Json) -> Node | None:
    """Read the state of a simulated node from a Node object; return None for any other node."""
    notes = item["metadata"].get("annotations") or {}
    if marks.FAKE_NODE not in notes:
        return None
    status = item.get("status") or {}
    return Node(
        version=int(item["metadata"]["resourceVersion"]),
        name=item["metadata"]["name"],
        gpus=int(notes.get(marks.GPUS, "0")),
        host=notes.get(marks.HOST),
        faults=faults.of_node(notes),
        capacity=owned(status.get("capacity")),
        allocatable=owned(status.get("allocatable")),
        message=notes.get(marks.FAULT_MESSAGE, ""),
        config=(item["metadata"].get("labels") or {}).get(CONFIG_LABEL, ""),
        mig=_parse_devices(notes.get(marks.MIG, "")),
        registered=notes.get(hami.REGISTERED, ""),
    )


def _parse_devices(text: str) -> Resources:
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {profile: int(number) for profile, _, number in pairs}


def read_pod(item: Json) -> Pod:
    """Read the state of a device plugin, toolkit or validation pod from a Pod object."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    # In the chart, GPU feature discovery and the MPS daemon have the same labels as the device
    # plugin, so the container name identifies the plugin.
    containers = {container["name"] for container in spec["containers"]}
    is_hami = labels.get(stages.HAMI_KEY) == stages.HAMI
    conditions = status.get("conditions") or []
    return Pod(
        version=int(meta["resourceVersion"]),
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        node=spec.get("nodeName", ""),
        is_plugin=is_hami
        or bool(containers & {"nvidia-device-plugin-ctr", "nvidia-device-plugin"}),
        is_validation=marks.VALIDATION in labels,
        is_toolkit=labels.get("app") == "nvidia-container-toolkit-daemonset",
        phase=status.get("phase", ""),
        ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        and "deletionTimestamp" not in meta,
        outcome=notes.get(marks.OUTCOME, ""),
        message=notes.get(marks.MESSAGE, ""),
        plugin=read_plugin(item),
        object=item,
    )


def plugin_message(node: Node, prepared: bool) -> str | None:
    """Return why the device plugin can't run on a node, or None if it can."""
    if node.faults.plugin_message:
        return node.faults.plugin_message
    return None if prepared else faults.RUNTIME_NOT_CONFIGURED_MESSAGE


def mig_message(node: Node, plugin: Plugin, file: Json) -> str | None:
    """Return the error of a device plugin that rejects the MIG partitions of its node, or None."""
    unlike = strategy_of(file, plugin.strategy) == "single" and len(node.mig) > 1
    return faults.MIG_UNLIKE_MESSAGE if unlike else None


def resources(node: Node, plugin: Plugin | None, file: Json) -> tuple[Resources, Resources]:
    """Return the capacity and the allocatable GPU resources that a node should have.

    When the plugin stops, allocatable becomes 0 and capacity stays (kubernetes v1.34,
    pkg/kubelet/cm/devicemanager, stopped endpoints).

    Args:
        plugin: The running device plugin of the node, or None.
        file: Configuration file of the plugin.
    """
    if not node.gpus:
        return node.capacity, node.allocatable
    if plugin is not None:
        registered = count(devices(node.name, seen(node, plugin), file, plugin.strategy, node.mig))
        allocatable = count(healthy(node, plugin, file))
        return registered, {name: allocatable.get(name, 0) for name in registered}
    return node.capacity, dict.fromkeys(node.capacity, 0)


def seen(node: Node, plugin: Plugin) -> list[int]:
    """Return the indexes of the GPUs that a device plugin sees on its node."""
    visible, hidden = plugin.visible, plugin.hidden.get(node.name, ())
    return [i for i in range(node.gpus) if (visible is None or i in visible) and i not in hidden]


def healthy(node: Node, plugin: Plugin, file: Json) -> list[Device]:
    """Return the devices that a device plugin reports as healthy.

    A critical XID makes one device of each resource unhealthy: of a GPU's replicas and MIG
    instances, the device plugin remembers only the last (k8s-device-plugin v0.19.3,
    internal/rm/health.go, `parentToDeviceMap`). HAMi's plugin makes all of a GPU's replicas
    unhealthy (HAMi v2.10.0, nvinternal/rm/devices.go, GetPluginDevices).
    """
    indexes = seen(node, plugin)
    registered = devices(node.name, indexes, file, plugin.strategy, node.mig)
    broken = set(indexes[: node.faults.unhealthy])
    if plugin.is_hami:
        return [device for device in registered if device.index not in broken]
    gone = {
        (device.resource, device.index): device.id
        for device in registered
        if device.index in broken
    }
    return [
        device for device in registered if gone.get((device.resource, device.index)) != device.id
    ]


def registration(node: Node, plugin: Plugin | None, file: Json) -> str:
    """Return the annotation with which HAMi's plugin registers GPUs; empty without that plugin."""
    if plugin is None or not plugin.is_hami:
        return ""
    indexes = seen(node, plugin)
    gpus = whole(node.name, indexes)
    return hami.registration(gpus, gpus[node.faults.unhealthy :], file.get("nvidia") or {})


def node_message(node: Node, problem: str | None) -> str:
    """Return why a node advertises fewer GPUs than it has; empty if it advertises all."""
    if problem:
        return problem
    return faults.unhealthy_message(gpu_uuid(node.name, i) for i in range(node.faults.unhealthy))


def plugin_outcome(pod: Pod, problem: str | None) -> tuple[str, str]:
    """Return the outcome and the error message of a pod that has the device plugin's labels."""
    if not (problem and pod.is_plugin):
        return stages.RUNNING, ""
    # Only an Event names it, so that no log and no status of a container has the text.
    if problem == faults.RUNTIME_NOT_CONFIGURED_MESSAGE:
        return stages.WITHOUT_SANDBOX, problem
    return stages.CRASHING, problem


def kernel_log(node: Node, problem: str | None, used: tuple[Device, ...]) -> str:
    """Return the result of a CUDA test in a container, as a key of `logs.RUNS`."""
    is_broken = any(device.index == node.faults.kernel_fails for device in used)
    if problem or node.faults.validation_fails or not used or is_broken:
        return logs.FAILED
    return logs.SILENT if node.faults.validation_silent else logs.PASSED
