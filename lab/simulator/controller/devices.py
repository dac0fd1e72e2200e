"""The devices of a simulated node, each with the UUID that nvidia-smi would show. Pure functions.

Resources: NVIDIA/k8s-device-plugin v0.20.0, api/config/v1 (configuration file), internal/rm
(`buildDeviceMap`, `AnnotatedID`: a replica's id is ``<uuid>::<number>``). UUIDs begin with zeros,
which no real GPU's do, so that a simulated one is known wherever it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from uuid import NAMESPACE_URL, uuid5

from lab.simulator import marks
from lab.simulator.api import Json

Resources = dict[str, int]

PRODUCT = "NVIDIA A100-SXM4-80GB"
#: Of gpu-manager: 100 units are a whole card (tkestack/gpu-manager 8cd842e).
CORE = "tencent.com/vcuda-core"
UNITS = 100


@dataclass(frozen=True)
class Device:
    """What a container can be given.

    Attributes:
        resource: the extended resource that it counts for.
        id: as the device plugin registers it with the kubelet.
        uuid: of the GPU, or of the MIG instance.
        gpu: UUID of the GPU.
        index: of the GPU on its node.
        profile: of the MIG instance; empty for a GPU.
    """

    resource: str
    id: str
    uuid: str
    gpu: str
    index: int
    profile: str = ""


@cache
def _uuid(kind: str, name: str) -> str:
    return f"{kind}-00000000-{str(uuid5(NAMESPACE_URL, name))[9:]}"


def gpu_uuid(node: str, index: int) -> str:
    """UUID of a node's GPU; it stays the same while the node has its name."""
    return _uuid("GPU", f"{node}/{index}")


def whole(node: str, indexes: Iterable[int], resource: str = marks.GPU) -> list[Device]:
    """Whole GPUs of a node as devices of a resource."""
    gpus = []
    for index in indexes:
        uuid = gpu_uuid(node, index)
        gpus.append(Device(resource, uuid, uuid, uuid, index))
    return gpus


def strategy_of(file: Json, strategy: str) -> str:
    """The MIG strategy: the environment's stands above the file's."""
    return str(strategy or (file.get("flags") or {}).get("migStrategy") or "none")


def devices(
    node: str, indexes: Iterable[int], file: Json, strategy: str, mig: Mapping[str, int]
) -> list[Device]:
    """What the device plugin registers for a node's GPUs.

    Args:
        node: the node's name.
        indexes: of the GPUs that the plugin sees.
        file: the plugin's configuration.
        strategy: the MIG strategy of its environment, which stands above the file's; or empty.
        mig: MIG instances of each GPU, by profile.
    """
    strategy = strategy_of(file, strategy)
    offered = whole(node, indexes)
    if mig and strategy in ("single", "mixed"):
        offered = [instance for gpu in offered for instance in _instances(gpu, strategy, mig)]
    return _shared(offered, file.get("sharing") or {})


def _instances(gpu: Device, strategy: str, mig: Mapping[str, int]) -> list[Device]:
    instances = []
    for profile, number in mig.items():
        single = strategy == "single"
        resource = marks.GPU if single else f"nvidia.com/mig-{profile.replace('+', '.')}"
        for instance in range(number):
            uuid = _uuid("MIG", f"{gpu.uuid}/{profile}/{instance}")
            instances.append(Device(resource, uuid, uuid, gpu.uuid, gpu.index, profile))
    return instances


def _shared(offered: list[Device], sharing: Json) -> list[Device]:
    shared = sharing.get("mps") or sharing.get("timeSlicing") or {}
    for share in shared.get("resources") or []:
        name = share["name"] if "/" in share["name"] else f"nvidia.com/{share['name']}"
        renamed = f"{name}.shared" if shared.get("renameByDefault") else name
        offered = [
            Device(renamed, f"{one.uuid}::{number}", one.uuid, one.gpu, one.index, one.profile)
            if one.resource == name
            else one
            for one in offered
            for number in range(share["replicas"] if one.resource == name else 1)
        ]
    return offered


def count(devices: Iterable[Device]) -> Resources:
    """Devices by resource."""
    return dict(Counter(device.resource for device in devices))


def listing(given: Iterable[Device]) -> tuple[str, ...]:
    """What ``nvidia-smi -L`` prints in a container that was given these devices."""
    lines: list[str] = []
    seen: list[str] = []
    for device in given:
        if device.gpu not in seen:
            lines.append(f"GPU {len(seen)}: {PRODUCT} (UUID: {device.gpu})")
            seen.append(device.gpu)
        if device.profile:
            lines.append(f"  MIG {device.profile}     Device  0: (UUID: {device.uuid})")
    return tuple(lines)
