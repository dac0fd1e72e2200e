"""The nodes that a cluster's declaration asks for, as Node objects. Pure functions."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from components.nodes.settings.pool import Pool
from components.settings.cluster import Cluster
from lab.simulator import marks

Json = dict[str, Any]

CONTROL_PLANE = "control-plane-1"

#: Capacity of an eight-GPU server (NVIDIA DGX H100 data sheet: 2 x 56 cores, 2 TB of memory) and of
#: a small control-plane machine; ``pods`` is the kubelet's default.
GPU_SERVER = {"cpu": "224", "memory": "2000Gi", "ephemeral-storage": "3500Gi", "pods": "110"}
CPU_SERVER = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}


@dataclass(frozen=True)
class NodeSpec:
    """One simulated node.

    ``gpus``: what it would have; ``host``: the SSH host standing for it; ``driver``: whether it
    has one from the start, or waits for an installer's pod.
    """

    name: str
    gpus: int = 0
    host: str | None = None
    control_plane: bool = False
    driver: bool = True
    labels: dict[str, str] = field(default_factory=dict)


def pool_nodes(pool: Pool) -> tuple[str, ...]:
    """Names of a pool's nodes; a pool with a selector gets ``<pool>-<i>``, from 1."""
    if pool.nodes is not None:
        return pool.node_names()
    return tuple(f"{pool.name}-{index}" for index in range(1, pool.size + 1))


def node_specs(cluster: Cluster) -> tuple[NodeSpec, ...]:
    """All nodes: the pools', those of hosts outside of pools, and a control plane."""
    hosts = {host.node: host for host in cluster.hosts}
    specs: dict[str, NodeSpec] = {}
    for pool in cluster.pools:
        for name in pool_nodes(pool):
            host = hosts.get(name)
            specs[name] = NodeSpec(
                name=name,
                gpus=pool.on_the_bus(name),
                driver=not cluster.driver.managed_by_daemonset,
                host=host.name if host else None,
                control_plane=host is not None and host.role.is_control_plane,
                labels=dict(pool.selector or {}),
            )
    for host in cluster.hosts:
        if host.node not in specs:
            control_plane = host.role.is_control_plane
            specs[host.node] = NodeSpec(host.node, host=host.name, control_plane=control_plane)
    if not any(spec.control_plane for spec in specs.values()):
        specs[CONTROL_PLANE] = NodeSpec(CONTROL_PLANE, control_plane=True)
    return tuple(specs.values())


def manifest(spec: NodeSpec) -> Json:
    """The Node object. No GPU capacity: that is the device plugin's to bring."""
    labels = {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": spec.name,
        **spec.labels,
    }
    annotations = {marks.FAKE_NODE: "fake"}
    if spec.control_plane:
        # No taint: the operator and its hooks need one node without the GPU taint.
        labels["node-role.kubernetes.io/control-plane"] = ""
    if spec.gpus:
        annotations[marks.GPUS] = str(spec.gpus)
        annotations[marks.PREPARED] = "host" if spec.host else "assumed"
        if not spec.driver:
            annotations[marks.DRIVER_WANTED] = "true"
    if spec.host:
        annotations[marks.HOST] = spec.host
    annotations[marks.DECLARED] = json.dumps(labels, sort_keys=True, separators=(",", ":"))
    size = dict(GPU_SERVER if spec.gpus else CPU_SERVER)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": labels, "annotations": annotations},
        "status": {"capacity": size, "allocatable": dict(size)},
    }


def difference(wanted: Json, present: Json) -> Json | None:
    """The merge patch that brings a node to what is declared; ``None`` where nothing differs.

    Only what the simulator set is touched: labels that others gave a node stay.
    """
    labels = _changed(wanted["metadata"]["labels"], present["metadata"].get("labels") or {})
    annotations = present["metadata"].get("annotations") or {}
    before: dict[str, str] = json.loads(annotations.get(marks.DECLARED, "{}"))
    labels |= {key: None for key in before if key not in wanted["metadata"]["labels"]}
    ours = (marks.GPUS, marks.PREPARED, marks.HOST, marks.DRIVER_WANTED)
    notes = _changed(wanted["metadata"]["annotations"], annotations)
    notes |= {
        key: None
        for key in ours
        if key in annotations and key not in wanted["metadata"]["annotations"]
    }
    if not labels and not notes:
        return None
    return {"metadata": {"labels": labels, "annotations": notes}}


def _changed(wanted: dict[str, str], present: dict[str, str]) -> dict[str, str | None]:
    return {key: value for key, value in wanted.items() if present.get(key) != value}
