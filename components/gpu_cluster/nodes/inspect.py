"""Facts about nodes: the pool they belong to, what this program manages on them, their GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

from gpu_cluster.desired.pool import Members
from gpu_cluster.kubernetes import grammar
from gpu_cluster.kubernetes.api import Client, ClusterError, Json
from gpu_cluster.kubernetes.resources import DRA_DRIVER, counts_gpus
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_rules.faults import Fault
from gpu_rules.kube.gpu_resources import GPU
from gpu_rules.kube.quantity import read_count
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.printable import counted, printable

P = TypeVar("P", bound=Members)

SIMULATED = "kwok.x-k8s.io/node"
CORDONED = "gpu-cluster/cordoned"
"""Annotation of a node that this program cordoned, for a rollout or a reboot."""

_CORDON_LABEL, _CORDON_REASON = "k8saas.nvidia.com/cordon-by", "k8saas.nvidia.com/cordon-reason"
_CORDON_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "cluster-autoscaler, which removes the node",
    "karpenter.sh/disrupted": "Karpenter, which removes the node",
}
_REASON, _REASONS = 120, 3
"""Maximum length of a reason of a cordon in a message, and maximum number of reasons."""


def node_name(node: Json) -> str:
    """Return the name of a Node object."""
    return str(node["metadata"]["name"])


def pool_members(nodes: list[Json], pool: Members) -> list[Json]:
    """Return the nodes of a pool, in the order of its `names`, or sorted if it has a `selector`.

    Args:
        nodes: Node objects of the API server.
        pool: Pool with its node names or its selector.

    Raises:
        ClusterError: A named node is not in the cluster, a selector matches another number of nodes
            than `count`, or a node has an invalid name. The error names all missing nodes.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    if pool.nodes is not None:
        absent = [name for name in pool.nodes if name not in by_name]
        if missing := [name for name in absent if name not in pool.joining]:
            found = f"no such node in the cluster ({counted(len(nodes), 'node')})"
            wanted, cure = "a node that has joined", "join it, or take it out of the pool"
            raise ClusterError(
                *(Fault(f"pool {pool.pool}: node {name}", found, wanted, cure) for name in missing)
            )
        return [by_name[name] for name in pool.nodes if name in by_name]
    selector = pool.selector
    members = [
        node
        for node in nodes
        if all(node["metadata"].get("labels", {}).get(k) == v for k, v in selector.items())
    ]
    out = pool.maintenance
    # A node in maintenance may be absent from the cluster, and its pool is then unknown.
    most = len(members) + sum(name not in by_name for name in {*out, *pool.joining})
    if not len(members) <= pool.count <= most:
        text = ",".join(f"{key}={value}" for key, value in selector.items())
        raise ClusterError(
            Fault(
                f"pool {pool.pool}: selector {text}",
                counted(len(members), "node"),
                f"the {pool.count} that `count` declares",
                "label the nodes, or change `count`",
            )
        )
    working = [node for node in members if node["metadata"]["name"] not in out]
    return sorted(working, key=lambda node: natural_order(grammar.node(node["metadata"]["name"])))


def members_of_pools(nodes: list[Json], pools: Iterable[P]) -> list[tuple[P, list[Json]]]:
    """Return each pool with its nodes.

    Raises:
        ClusterError: `pool_members` raised it for some pools; the error has the faults of all.
    """
    result: list[tuple[P, list[Json]]] = []
    faults: list[Fault] = []
    for pool in pools:
        try:
            result.append((pool, pool_members(nodes, pool)))
        except ClusterError as error:
            faults += error.faults
    if faults:
        raise ClusterError(*faults)
    return result


def cordoned_by_others(nodes: list[Json]) -> list[str]:
    """Return the names of nodes that are cordoned, but not by this program."""
    return [
        node["metadata"]["name"]
        for node in nodes
        if node["spec"].get("unschedulable")
        and CORDONED not in node["metadata"].get("annotations", {})
    ]


def cordoner(node: Json) -> str:
    """Return who cordoned a node and why, by the marks that known software leaves; else empty.

    Sources: NVIDIA/NVSentinel, fault-quarantine (labels, and conditions such as GpuXidError);
    kubernetes/autoscaler, cluster-autoscaler (taint); Karpenter v1 (taint).
    """
    labels = node["metadata"].get("labels") or {}
    for taint in node["spec"].get("taints") or ():
        if str(taint.get("key")) in _CORDON_TAINTS:
            return _CORDON_TAINTS[taint["key"]]
    if not (by := str(labels.get(_CORDON_LABEL, ""))):
        return ""
    conditions = (node.get("status") or {}).get("conditions") or ()
    reasons = [
        str(labels.get(_CORDON_REASON, "")),
        *(
            f"{each.get('type')}: {each.get('message', '')}"
            for each in conditions
            if each.get("status") == "True" and str(each.get("type", "")).startswith("Gpu")
        ),
    ]
    why = "; ".join(printable(reason, _REASON) for reason in reasons[:_REASONS] if reason)
    return f"{printable(by, _REASON)} ({why})" if why else printable(by, _REASON)


async def list_nodes(client: Client) -> list[Json]:
    """Return all nodes without unneeded parts: images, volumes, writers of the status.

    These parts are most of a node's 15 kB; a cluster can have 5,000 nodes.
    """
    nodes = []
    async for page in client.pages("nodes"):
        for node in page:
            for part in ("images", "volumesAttached", "volumesInUse"):
                (node.get("status") or {}).pop(part, None)
            for entry in (node.get("metadata") or {}).get("managedFields") or []:
                (entry.get("fieldsV1") or {}).pop("f:status", None)
        nodes += page
    return nodes


def managed_by(node: Json, manager: str) -> bool:
    """Return whether a field manager owns fields of the node through server-side apply."""
    return any(
        entry["manager"] == manager and entry["operation"] == "Apply"
        for entry in node["metadata"].get("managedFields", [])
    )


def gpus(node: Json, kind: str = "allocatable", resource: str = GPU) -> int:
    """Return the GPU count in a node's `capacity` or `allocatable`; 0 for an implausible value."""
    return read_count(node.get("status", {}).get(kind, {}).get(resource, "0"))


def advertised(node: Json) -> dict[str, int]:
    """Return the allocatable amount of each GPU resource that a node advertises."""
    names = filter(counts_gpus, node.get("status", {}).get("allocatable") or {})
    return {name: gpus(node, resource=name) for name in sorted(names)}


def _with(node: Json, resource: str, specs: list[Json]) -> Json:
    newest = max((spec["pool"]["generation"] for spec in specs), default=0)
    devices = [
        device
        for spec in specs
        if spec["pool"]["generation"] == newest
        for device in spec.get("devices") or []
        if device.get("attributes", {}).get("type", {}).get("string") == "gpu"
    ]
    healthy = [device for device in devices if not blocking_taints(device)]
    status = dict(node.get("status", {}))
    for kind, found in (("capacity", devices), ("allocatable", healthy)):
        status[kind] = {**status.get(kind, {}), resource: str(len(found))}
    return {**node, "status": status}


def blocking_taints(device: Json) -> list[str]:
    """Return the taints of a device that keep the scheduler from allocating it, as `key=value`.

    A taint with the effect `None` only informs: NVIDIA's driver sets it for GPUs that it can't
    monitor and for Xid errors of applications (dra-driver-nvidia-gpu v0.5.0,
    cmd/gpu-kubelet-plugin/device_health.go).

    Args:
        device: A device of a ResourceSlice.
    """
    return [
        "=".join(str(taint[field]) for field in ("key", "value") if taint.get(field))
        for taint in device.get("taints") or []
        if NodeTaint.of(taint).is_hard
    ]


def count_devices(nodes: list[Json], slices: list[Json], driver: str) -> list[Json]:
    """Return the nodes with a DRA driver's whole GPUs added to their extended resources.

    The GPUs are counted under the driver's name: `capacity` counts all, `allocatable` those without
    a taint that keeps pods off. For each node only the newest generation of ResourceSlices counts
    (resource.k8s.io/v1, ResourcePool).
    """
    by_node: dict[str, list[Json]] = {}
    for resource_slice in slices:
        spec = resource_slice["spec"]
        if spec["driver"] == driver:
            by_node.setdefault(spec.get("nodeName", ""), []).append(spec)
    return [_with(node, driver, by_node.get(node["metadata"]["name"], [])) for node in nodes]


async def with_devices(
    client: Client, nodes: list[Json], resources: Iterable[Collection[str]]
) -> list[Json]:
    """Return the nodes, with their DRA devices added if a pool has the DRA driver as resource."""
    if not any(DRA_DRIVER in names for names in resources):
        return nodes
    slices = await client.list("resourceslices", base="/apis/resource.k8s.io")
    return count_devices(nodes, slices, DRA_DRIVER)


def simulated(node: Json) -> bool:
    """Return whether kwok simulates the node.

    kwok sets the annotation `kwok.x-k8s.io/node` (kwok 0.7 documentation).
    """
    return SIMULATED in node["metadata"].get("annotations", {})


def shortfall(node: Json, declared: int, resources: dict[str, int]) -> str:
    """Return how a node's advertised resources differ from the declared ones; empty if equal.

    Args:
        declared: Number of GPUs that the pool declares per node.
        resources: Expected count of each resource. For `nvidia.com/gpu` it equals `declared`,
            unless the GPUs are shared or partitioned (MIG).
    """
    differences = (
        _describe_gpu_difference(node, name, count, declared) for name, count in resources.items()
    )
    return "; ".join(filter(None, differences))


def has_surplus(node: Json, resources: dict[str, int]) -> bool:
    """Return whether a node advertises more of a resource than the stack file declares."""
    return any(gpus(node, resource=name) > count for name, count in resources.items())


def _describe_gpu_difference(node: Json, resource: str, count: int, declared: int) -> str:
    allocatable = gpus(node, resource=resource)
    capacity = gpus(node, "capacity", resource)
    if allocatable == count == capacity:
        return ""
    devices = "GPUs" if (resource, count) == (GPU, declared) else resource
    if capacity == allocatable > count:
        return f"{allocatable} {devices} allocatable, {count} declared"
    difference = f"{allocatable} of {count} {devices} allocatable"
    if capacity > allocatable:
        return (
            f"{difference} (capacity {capacity}: {capacity - allocatable} unhealthy or withdrawn)"
        )
    return difference
