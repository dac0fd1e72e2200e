"""Allocate devices to a pod's containers like the kubelet's device manager. All functions are pure.

When a pod is admitted, each container gets devices that no other container has; if too few are
free, the pod fails with `UnexpectedAdmissionError` (kubernetes v1.34
pkg/kubelet/cm/devicemanager/manager.go). Among replicas of GPUs, the device plugin prefers the
least used GPUs (NVIDIA/k8s-device-plugin v0.20.0 internal/rm/allocate.go, distributedAlloc).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpu_cluster_lab.simulator.api import Json
from gpu_cluster_lab.simulator.controller.devices import CORE, UNITS, Device
from gpu_cluster_lab.simulator.controller.hami import Shares

#: Allocated devices of one pod, by container name.
Given = dict[str, tuple[Device, ...]]

REASON = "UnexpectedAdmissionError"


class NotEnough(Exception):
    """Error: the kubelet would reject the pod; the message is the kubelet's."""


@dataclass(frozen=True)
class Want:
    """Request of a container: its name, a resource, and the number of devices."""

    container: str
    resource: str
    number: int


def wants(pod: Json, resources: Iterable[str]) -> list[Want]:
    """Return the devices that a pod's containers request, in the kubelet's allocation order.

    A container that requests a share of a gpu-manager card counts as requesting the whole card,
    because no two validation containers share a card.
    """
    requested = set(resources)
    requests = []
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        for name, value in limits.items():
            if name in requested:
                number = -(-int(value) // UNITS) if name == CORE else int(value)
                requests.append(Want(container["name"], name, number))
    return requests


def allocate(devices: Iterable[Device], used_ids: Iterable[str], requests: Iterable[Want]) -> Given:
    """Allocate devices to the containers of one pod, as the kubelet does.

    Args:
        devices: Healthy devices of the node.
        used_ids: Ids of devices that are allocated to other pods.
        requests: Devices that the pod's containers request.

    Returns:
        The allocated devices by container name.

    Raises:
        NotEnough: Fewer devices are free than a container requests.
    """
    used = set(used_ids)
    load = Counter(device.uuid for device in devices if device.id in used)
    by_container: dict[str, list[Device]] = {}
    for want in requests:
        free = [d for d in devices if d.resource == want.resource and d.id not in used]
        if len(free) < want.number:
            raise NotEnough(
                "Allocate failed due to requested number of devices unavailable for "
                f"{want.resource}. Requested: {want.number}, Available: {len(free)}, which is "
                "unexpected"
            )
        for _ in range(want.number):
            device = min(free, key=lambda candidate: load[candidate.uuid])
            free.remove(device)
            used.add(device.id)
            load[device.uuid] += 1
            by_container.setdefault(want.container, []).append(device)
    return {name: tuple(devices) for name, devices in by_container.items()}


def of_claims(node: str, pod: Json, claims: Mapping[str, Json], gpus: Iterable[Device]) -> Given:
    """Return the devices that a pod gets through its ResourceClaims, by container name.

    Args:
        node: Name of the pod's node, which is also the name of the node's device pool.
        claims: ResourceClaims of the pod, by their name in the pod's spec.
        gpus: Whole GPUs of the node.
    """
    by_name = {f"gpu-{device.index}": device for device in gpus}
    by_container: Given = {}
    for container in pod["spec"]["containers"]:
        devices = [
            by_name[result["device"]]
            for ask in (container.get("resources") or {}).get("claims") or []
            for result in _allocation_results(claims.get(ask["name"], {}))
            if result["pool"] == node and result["device"] in by_name
        ]
        if devices:
            by_container[container["name"]] = tuple(devices)
    return by_container


def of_hami(pod: Json, shares: Shares, gpus: Iterable[Device]) -> Given:
    """Return the GPUs that HAMi's scheduler assigned to a pod, by container name.

    Args:
        shares: Shares of GPUs of each container, init containers first.
        gpus: Whole GPUs of the pod's node.
    """
    by_uuid = {device.uuid: device for device in gpus}
    spec = pod["spec"]
    containers = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return {
        container["name"]: tuple(
            by_uuid[share.uuid] for share in container_shares if share.uuid in by_uuid
        )
        for container, container_shares in zip(containers, shares, strict=False)
        if container_shares
    }


def _allocation_results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or [])
