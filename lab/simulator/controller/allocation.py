"""Which devices a pod's containers get, as the kubelet's device manager gives them. Pure functions.

kubernetes v1.34 pkg/kubelet/cm/devicemanager/manager.go: at a pod's admission each container gets
devices that no other has; a pod for which they don't suffice fails with
``UnexpectedAdmissionError``. Among replicas the plugin prefers GPUs that are used least
(NVIDIA/k8s-device-plugin v0.20.0 internal/rm/allocate.go, distributedAlloc).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.simulator.api import Json
from lab.simulator.controller.devices import CORE, UNITS, Device

#: Devices by container.
Given = dict[str, tuple[Device, ...]]

REASON = "UnexpectedAdmissionError"


class NotEnough(Exception):
    """The kubelet would refuse the pod; the text is its message."""


@dataclass(frozen=True)
class Want:
    """What a container asks for of one resource, in devices."""

    container: str
    resource: str
    number: int


def wants(pod: Json, resources: Iterable[str]) -> list[Want]:
    """What a pod's containers ask for of these resources, in the kubelet's order.

    Shares of gpu-manager's cards count as a whole card: no two containers of ours share one.
    """
    asked = set(resources)
    wanted = []
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        for name, value in limits.items():
            if name in asked:
                number = -(-int(value) // UNITS) if name == CORE else int(value)
                wanted.append(Want(container["name"], name, number))
    return wanted


def allocate(devices: Iterable[Device], taken: Iterable[str], asked: Iterable[Want]) -> Given:
    """Devices for the containers of one pod.

    Args:
        devices: the node's healthy devices.
        taken: ids that other pods have.
        asked: what the containers ask for.

    Raises:
        NotEnough: there are fewer free devices than a container asks for.
    """
    used = set(taken)
    load = Counter(device.uuid for device in devices if device.id in used)
    given: dict[str, list[Device]] = {}
    for want in asked:
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
            given.setdefault(want.container, []).append(device)
    return {name: tuple(devices) for name, devices in given.items()}


def of_claims(node: str, pod: Json, claims: Mapping[str, Json], gpus: Iterable[Device]) -> Given:
    """Devices of a pod that has them by ResourceClaims.

    Args:
        node: the pod's node, which is the name of its pool of devices.
        pod: the pod.
        claims: its ResourceClaims by the name that the pod gives them.
        gpus: the node's whole ones.
    """
    by_name = {f"gpu-{device.index}": device for device in gpus}
    given: Given = {}
    for container in pod["spec"]["containers"]:
        devices = [
            by_name[result["device"]]
            for ask in (container.get("resources") or {}).get("claims") or []
            for result in _results(claims.get(ask["name"], {}))
            if result["pool"] == node and result["device"] in by_name
        ]
        if devices:
            given[container["name"]] = tuple(devices)
    return given


def _results(claim: Json) -> list[Json]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or [])
