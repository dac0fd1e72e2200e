"""Node objects of the simulated hardware. All functions are pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.settings.nodes.node_range import written_out
from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.hardware import Hardware

Json = dict[str, Any]

#: Capacity of a server with eight GPUs (NVIDIA DGX H100 data sheet: 2 x 56 cores, 2 TB of memory)
#: and of a small control-plane machine; `pods` is the kubelet's default.
GPU_SERVER = {"cpu": "224", "memory": "2000Gi", "ephemeral-storage": "3500Gi", "pods": "110"}
CPU_SERVER = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}


@dataclass(frozen=True)
class NodeSpec:
    """Declared state of one simulated node.

    Attributes:
        gpus: Number of simulated GPUs.
        host: Name of the SSH host that simulates the node's machine, None without an SSH host.
        control_plane: True for a control-plane node.
        driver: True if the driver is installed from the start, False if the node waits for an
            installer pod.
        labels: Labels of the node.
        faults: Faults of the node in the hardware file.
    """

    name: str
    gpus: int = 0
    host: str | None = None
    control_plane: bool = False
    driver: bool = True
    labels: dict[str, str] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


def node_specs(hardware: Hardware) -> tuple[NodeSpec, ...]:
    """Return the declared state of all nodes in the hardware, each with its SSH host."""
    hosts = {host.of_node: host.name for host in hardware.hosts}
    return tuple(
        NodeSpec(
            name=name,
            gpus=kind.gpus,
            host=hosts.get(name),
            control_plane=kind.control_plane,
            driver=kind.driver,
            labels=dict(kind.labels),
            faults=kind.faults,
        )
        for kind in hardware.nodes
        for name in written_out(kind.names)
    )


def manifest(spec: NodeSpec) -> Json:
    """Return the Node object of a simulated node without GPU capacity.

    The simulated device plugin adds the GPU capacity.
    """
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": spec.name,
        **spec.labels,
    }
    annotations = {marks.FAKE_NODE: "fake"}
    if spec.control_plane:
        # Don't taint the control-plane node: the GPU Operator and its hooks need one node without
        # the GPU taint.
        labels["node-role.kubernetes.io/control-plane"] = ""
    if spec.gpus:
        annotations[marks.GPUS] = str(spec.gpus)
        annotations[marks.PREPARED] = "host" if spec.host else "assumed"
        if not spec.driver:
            annotations[marks.DRIVER_WANTED] = "true"
    if spec.host:
        annotations[marks.HOST] = spec.host
    if spec.faults:
        text = ",".join(spec.faults)
        annotations |= {marks.FAULT: text, marks.DECLARED_FAULT: text}
    annotations[marks.DECLARED] = json.dumps(labels, sort_keys=True, separators=(",", ":"))
    size = dict(GPU_SERVER if spec.gpus else CPU_SERVER)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels, "annotations": annotations},
        "status": {"capacity": size, "allocatable": dict(size)},
    }


def difference(wanted: Json, present: Json) -> Json | None:
    """Return the merge patch that updates a node to its declared state; None if nothing differs.

    Only labels and annotations of the simulator are changed. Labels of other clients are kept.
    Faults that a person set are kept until the faults in the hardware file change.
    """
    labels = _changed_values(wanted["metadata"]["labels"], present["metadata"].get("labels") or {})
    annotations = present["metadata"].get("annotations") or {}
    before: dict[str, str] = json.loads(annotations.get(marks.DECLARED, "{}"))
    labels |= {key: None for key in before if key not in wanted["metadata"]["labels"]}
    ours = (
        marks.GPUS,
        marks.PREPARED,
        marks.HOST,
        marks.DRIVER_WANTED,
        marks.DECLARED_FAULT,
    )
    declared: dict[str, str] = dict(wanted["metadata"]["annotations"])
    fault = declared.pop(marks.FAULT, None)
    notes = _changed_values(declared, annotations)
    notes |= {key: None for key in ours if key in annotations and key not in declared}
    if marks.DECLARED_FAULT in notes:
        notes[marks.FAULT] = fault
    if not labels and not notes:
        return None
    return {"metadata": {"labels": labels, "annotations": notes}}


def _changed_values(wanted: dict[str, str], present: dict[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}
