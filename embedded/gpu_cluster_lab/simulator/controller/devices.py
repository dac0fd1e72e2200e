"""Devices of a simulated node, with the UUIDs that nvidia-smi would show. All functions are pure.

Sources: NVIDIA/k8s-device-plugin v0.20.0, api/config/v1 (configuration file), internal/rm
(`buildDeviceMap`, `AnnotatedID`: the id of a replica is `<uuid>::<number>`). Simulated UUIDs begin
with zeros, which UUIDs of real GPUs never do, so that a simulated GPU is recognised in any output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from uuid import NAMESPACE_URL, uuid5

from gpu_cluster_lab.simulator import marks
from gpu_cluster_lab.simulator.api import Json

Resources = dict[str, int]

PRODUCT = "NVIDIA A100-SXM4-80GB"
#: Resource of gpu-manager: 100 units are a whole card (tkestack/gpu-manager 8cd842e).
CORE = "tencent.com/vcuda-core"
UNITS = 100


@dataclass(frozen=True)
class Device:
    """Device that the device plugin registers at the kubelet and that a container can get.

    Attributes:
        resource: Name of the extended resource.
        id: Id with which the device plugin registers the device at the kubelet.
        uuid: UUID of the GPU or of the MIG instance.
        gpu: UUID of the GPU.
        index: Index of the GPU on its node.
        profile: Profile of the MIG instance; empty for a whole GPU.
    """

    resource: str
    id: str
    uuid: str
    gpu: str
    index: int
    profile: str = ""


@cache
def _device_uuid(kind: str, name: str) -> str:
    return f"{kind}-00000000-{str(uuid5(NAMESPACE_URL, name))[9:]}"


def gpu_uuid(node: str, index: int) -> str:
    """Return the UUID of a node's GPU, derived from the node's name and the GPU's index."""
    return _device_uuid("GPU", f"{node}/{index}")


def whole(node: str, indexes: Iterable[int], resource: str = marks.GPU) -> list[Device]:
    """Return whole GPUs of a node as devices of one resource."""
    gpus = []
    for index in indexes:
        uuid = gpu_uuid(node, index)
        gpus.append(Device(resource, uuid, uuid, uuid, index))
    return gpus


def strategy_of(file: Json, strategy: str) -> str:
    """Return the MIG strategy.

    The environment variable overrides the plugin's configuration file.
    """
    return str(strategy or (file.get("flags") or {}).get("migStrategy") or "none")


def devices(
    node: str, indexes: Iterable[int], file: Json, strategy: str, mig: Mapping[str, int]
) -> list[Device]:
    """Return the devices that the device plugin registers for a node's GPUs.

    Args:
        indexes: Indexes of the GPUs that the plugin sees.
        file: Configuration file of the plugin.
        strategy: MIG strategy in the plugin's environment, which overrides the file; may be empty.
        mig: Number of MIG instances of each GPU, by profile.
    """
    strategy = strategy_of(file, strategy)
    offered = whole(node, indexes)
    if mig and strategy in ("single", "mixed"):
        offered = [instance for gpu in offered for instance in _mig_instances(gpu, strategy, mig)]
    return _share_devices(offered, file.get("sharing") or {})


def _mig_instances(gpu: Device, strategy: str, mig: Mapping[str, int]) -> list[Device]:
    instances = []
    for profile, number in mig.items():
        single = strategy == "single"
        resource = marks.GPU if single else f"nvidia.com/mig-{profile.replace('+', '.')}"
        for instance in range(number):
            uuid = _device_uuid("MIG", f"{gpu.uuid}/{profile}/{instance}")
            instances.append(Device(resource, uuid, uuid, gpu.uuid, gpu.index, profile))
    return instances


def _share_devices(offered: list[Device], sharing: Json) -> list[Device]:
    shared = sharing.get("mps") or sharing.get("timeSlicing") or {}
    for share in shared.get("resources") or []:
        name = share["name"] if "/" in share["name"] else f"nvidia.com/{share['name']}"
        renamed = f"{name}.shared" if shared.get("renameByDefault") else name
        offered = [
            Device(
                renamed,
                f"{device.uuid}::{number}",
                device.uuid,
                device.gpu,
                device.index,
                device.profile,
            )
            if device.resource == name
            else device
            for device in offered
            for number in range(share["replicas"] if device.resource == name else 1)
        ]
    return offered


def count(devices: Iterable[Device]) -> Resources:
    """Return the number of devices of each resource, by resource name."""
    return dict(Counter(device.resource for device in devices))


def listing(allocated: Iterable[Device]) -> tuple[str, ...]:
    """Return the output of `nvidia-smi -L` in a container that has these devices."""
    lines: list[str] = []
    gpus: list[str] = []
    for device in allocated:
        if device.gpu not in gpus:
            lines.append(f"GPU {len(gpus)}: {PRODUCT} (UUID: {device.gpu})")
            gpus.append(device.gpu)
        if device.profile:
            lines.append(f"  MIG {device.profile}     Device  0: (UUID: {device.uuid})")
    return tuple(lines)
