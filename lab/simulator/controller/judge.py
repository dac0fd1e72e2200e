"""What becomes of a node's pods and GPUs. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from lab.simulator import faults, logs, marks, stages
from lab.simulator.api import Json
from lab.simulator.controller.devices import (
    Device,
    Resources,
    count,
    devices,
    gpu_uuid,
    strategy_of,
)
from lab.simulator.controller.offered import CONFIG_LABEL, Plugin, owned, read_plugin


@dataclass
class Node:
    """A simulated node as the API server had it at ``version``."""

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


@dataclass(frozen=True)
class Pod:
    """A pod that waits for a decision, or runs after one, as it was at ``version``."""

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
        """Where the API server has it."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def read_node(item: Json) -> Node | None:
    """A node, or ``None`` for one that is not simulated."""
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
        mig=_devices(notes.get(marks.MIG, "")),
    )


def _devices(text: str) -> Resources:
    pairs = (pair.partition("=") for pair in text.split(",") if pair)
    return {profile: int(number) for profile, _, number in pairs}


def read_pod(item: Json) -> Pod:
    """A pod of the device plugin, of the toolkit, or of a validation."""
    meta, spec, status = item["metadata"], item["spec"], item.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    # Feature discovery and the MPS daemon share the chart's labels; the container tells.
    containers = {container["name"] for container in spec["containers"]}
    conditions = status.get("conditions") or []
    return Pod(
        version=int(meta["resourceVersion"]),
        uid=meta["uid"],
        name=meta["name"],
        namespace=meta["namespace"],
        node=spec.get("nodeName", ""),
        is_plugin=bool(containers & {"nvidia-device-plugin-ctr", "nvidia-device-plugin"}),
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
    """Why device-plugin pods of the node cannot run; ``None`` where they can."""
    if node.faults.plugin_message:
        return node.faults.plugin_message
    return None if prepared else faults.RUNTIME_NOT_CONFIGURED_MESSAGE


def mig_message(node: Node, plugin: Plugin, file: Json) -> str | None:
    """Why a plugin refuses how the node's GPUs are divided; ``None`` where it takes them."""
    unlike = strategy_of(file, plugin.strategy) == "single" and len(node.mig) > 1
    return faults.MIG_UNLIKE_MESSAGE if unlike else None


def resources(node: Node, plugin: Plugin | None, file: Json) -> tuple[Resources, Resources]:
    """Capacity and allocatable that the node should have; ``plugin``: the one that serves it.

    When the plugin goes, allocatable becomes 0 and capacity stays (kubernetes v1.34,
    pkg/kubelet/cm/devicemanager, endpoints that stopped).
    """
    if not node.gpus:
        return node.capacity, node.allocatable
    if plugin is not None:
        registered = count(devices(node.name, seen(node, plugin), file, plugin.strategy, node.mig))
        allocatable = count(healthy(node, plugin, file))
        return registered, {name: allocatable.get(name, 0) for name in registered}
    return node.capacity, dict.fromkeys(node.capacity, 0)


def seen(node: Node, plugin: Plugin) -> list[int]:
    """Indexes of the GPUs that a plugin sees."""
    return [i for i in range(node.gpus) if plugin.visible is None or i in plugin.visible]


def healthy(node: Node, plugin: Plugin, file: Json) -> list[Device]:
    """Devices that a plugin has not withdrawn.

    A critical XID takes one device of each resource: of a GPU's replicas and MIG instances the
    plugin keeps the last (k8s-device-plugin v0.19.3, internal/rm/health.go, `parentToDeviceMap`).
    """
    indexes = seen(node, plugin)
    registered = devices(node.name, indexes, file, plugin.strategy, node.mig)
    broken = set(indexes[: node.faults.unhealthy])
    gone = {(one.resource, one.index): one.id for one in registered if one.index in broken}
    return [one for one in registered if gone.get((one.resource, one.index)) != one.id]


def node_message(node: Node, problem: str | None) -> str:
    """Why the node offers fewer GPUs than it has; empty where it offers all."""
    if problem:
        return problem
    return faults.unhealthy_message(gpu_uuid(node.name, i) for i in range(node.faults.unhealthy))


def plugin_outcome(pod: Pod, problem: str | None) -> tuple[str, str]:
    """Outcome and message of a pod with the plugin's labels."""
    if problem and pod.is_plugin:
        return stages.CRASHING, problem
    return stages.RUNNING, ""


def kernel_log(node: Node, problem: str | None, used: tuple[Device, ...]) -> str:
    """What a container's program does on the devices that it uses: a kind of `logs.RUNS`."""
    is_broken = any(device.index == node.faults.kernel_fails for device in used)
    if problem or node.faults.validation_fails or not used or is_broken:
        return logs.FAILED
    return logs.SILENT if node.faults.validation_silent else logs.PASSED
