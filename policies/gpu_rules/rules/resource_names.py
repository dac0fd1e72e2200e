"""Names of extended resources, and which of them are GPU resources."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ..context import Context
from ..kube.gpu_resources import (
    BY_CLASS,
    GPU,
    GPU_SHARED,
    KNOWN,
    MIG,
    VCUDA_CORE,
    VCUDA_MEMORY,
    is_gpu_device,
    is_gpu_resource,
)
from ..kube.names import NATIVE

# The MIG profile 1c.2g.10gb+me is advertised as mig-1c.2g.10gb.me (NVIDIA k8s-device-plugin
# internal/resource/nvml-mig-device.go).
_MIG_FORM = re.compile(r"nvidia\.com/mig-([0-9]c\.)?[0-9]g\.[0-9]+gb(\.[a-z0-9.-]+)?")
_DOMAINS = ("nvidia.com", "tencent.com", "amd.com")
_MOST_LETTERS_OFF = 2
SOUNDS_LIKE_GPU: Final = "nvidia|gpu|vcuda|mig-|gaudi"
NETWORK: Final = "rdma|roce|sriov|mlnx|hostdev|hca|(^|[-_./])(nics?|ib|bf|sfs?|vfs?)([-_.]|$)"
"""Pattern of the names of network devices, which Mellanox/network-operator and
NVIDIA/doca-platform advertise under nvidia.com, too.
"""
OTHER_DEVICES: Final = (
    "(^|[-.0-9])(channels?|cpus?|dpdk|dranet|fpgas?|hca|hostdev|ib|imex|infiniband|mlnx|net|"
    "netdevs?|networks?|nics?|qat|rdma|roce|storage|tpus?|vfs?)([-.0-9]|$)"
)
"""Pattern of the names of claims and DeviceClasses for devices of other kinds, unless the name
speaks of GPUs too.
"""
CHANNELS: Final = r"imex\.nvidia\.com|compute-domain-[a-z-]+\.nvidia\.com"
"""Pattern of the DeviceClasses of NVIDIA's DRA driver that have no GPUs, but channels between
nodes: NVIDIA/k8s-dra-driver-gpu deployments/helm/nvidia-dra-driver-gpu/templates.
"""
_WRONG = {
    "alpha.kubernetes.io/nvidia-gpu": GPU,
    "nvidia.com/gpus": GPU,
    "nvidia.com/gpu-shared": GPU_SHARED,
    "nvidia.com/gpu_shared": GPU_SHARED,
    "tencent.com/vcuda-cores": VCUDA_CORE,
    "tencent.com/vcuda-mem": VCUDA_MEMORY,
    "gpu": GPU,
    "gpus": GPU,
    "nvidia": GPU,
    "nvidia-gpu": GPU,
    "nvidia.com": GPU,
}


def is_gpu(name: str, context: Context) -> bool:
    """Return whether a resource is a well-known GPU resource or a GPU resource of this cluster.

    The cluster's settings and its DeviceClasses for GPUs name further GPU resources.
    """
    return (
        is_gpu_resource(name)
        or name in context.resource_names
        or name in context.devices.resources
        or (
            name.startswith(BY_CLASS)
            and sounds_like_gpu(name)
            and not names_other_devices(name.removeprefix(BY_CLASS))
        )
    )


def is_device(name: str, context: Context) -> bool:
    """Return whether one unit of a resource is a device or a share of a device.

    Resources for a part of a device's memory or cores are not devices. A resource that only the
    cluster's settings name counts as a device, unless it is that of a DeviceClass (GPU070).
    """
    is_of_site = (
        name in context.resource_names and name not in KNOWN and not name.startswith(BY_CLASS)
    )
    return is_of_site or is_gpu_device(name)


def sounds_like_gpu(name: str) -> bool:
    """Return whether a name may mean a GPU of some kind, such as KubeVirt's nvidia.com/GA102GL_A10.

    The test is a simple pattern, because the CEL expression of GPU032 uses the same pattern.
    """
    return re.search(SOUNDS_LIKE_GPU, name.lower()) is not None


def may_be_gpu(name: str, context: Context) -> bool:
    """Return whether a resource may be a GPU, although no rule counts it.

    Its name resembles that of a GPU, or it is that of a DeviceClass whose name says nothing.
    """
    class_name = name.removeprefix(BY_CLASS)
    return sounds_like_gpu(name) or (class_name != name and may_be_of_gpus(class_name, context))


def of_gpus(name: str, context: Context) -> bool:
    """Return whether a DeviceClass is known to have GPUs.

    A DeviceClass has GPUs if its name resembles a GPU, if its manifest selects GPUs, or if the
    cluster's settings list its name. NVIDIA's classes of channels between nodes have none.
    """
    sounds_like = sounds_like_gpu(name) and not names_other_devices(name)
    return sounds_like or name in context.resource_names or name in context.devices.classes


def may_be_of_gpus(name: str, context: Context) -> bool:
    """Return whether a DeviceClass may have GPUs: nothing says that it is for other devices."""
    is_for_others = name == "" or names_other_devices(name) or name in context.other_claims
    return of_gpus(name, context) or not is_for_others


def names_other_devices(name: str) -> bool:
    """Return whether the name of a claim or DeviceClass says that it is not for GPUs."""
    lower = name.lower()
    return re.fullmatch(CHANNELS, lower) is not None or (
        re.search(OTHER_DEVICES, lower) is not None and not sounds_like_gpu(name)
    )


def meant(name: str, context: Context) -> str | None:
    """Return the GPU resource that a wrong name probably means, or None.

    A name is wrong if no device plugin advertises it: the alpha name of Kubernetes 1.3 to 1.10, a
    known name in other case or with a common typo, a known name under a domain with up to two wrong
    letters or none, a plural, a number after the name, `_` for `-`, the prefix `requests.` or
    `limits.` of a quota in a container, or a MIG profile that does not exist.
    """
    if name in NATIVE:
        return None
    lower = name.lower()
    if lower.startswith(MIG) and name not in context.resource_names:
        return None if _MIG_FORM.fullmatch(name) else f"{MIG}<slices>g.<memory>gb"
    if is_gpu(name, context):
        return None
    lower = lower.removeprefix("requests.").removeprefix("limits.")
    if lower in _WRONG:
        return _WRONG[lower]
    if is_gpu(lower, context):
        return lower
    domain, slash, local = lower.replace(".com.", ".com/").rpartition("/")
    for right in _near_domains(domain) if domain or not slash else ():
        for candidate in (f"{right}/{form}" for form in _name_forms(local)):
            if candidate != name and is_gpu(candidate, context):
                return candidate
    return None


def _name_forms(local: str) -> tuple[str, ...]:
    """Return the names that a local name may mean: as it is, with dashes, singular, no number."""
    dashed = local.replace("_", "-")
    return tuple(
        dict.fromkeys((local, dashed, dashed.removesuffix("s"), dashed.rstrip("0123456789")))
    )


@lru_cache(maxsize=4096)
def _near_domains(domain: str) -> list[str]:
    """Return the domains that a domain may mean.

    That is the domain itself, those that differ from it in at most two letters, those whose ending
    it lacks, and all of them if it is empty.
    """
    return [domain] + [
        known_domain
        for known_domain in _DOMAINS
        if domain in ("", known_domain.removesuffix(".com"))
        or _letters_off(domain, known_domain) <= _MOST_LETTERS_OFF
    ]


def _letters_off(first: str, second: str) -> int:
    """Return the number of letters to insert, remove or replace to turn one text into the other."""
    if abs(len(first) - len(second)) > _MOST_LETTERS_OFF:
        return _MOST_LETTERS_OFF + 1
    row = list(range(len(second) + 1))
    for index, letter in enumerate(first, 1):
        above, row[0] = row[0], index
        for column, second_letter in enumerate(second, 1):
            best = min(above + (letter != second_letter), row[column] + 1, row[column - 1] + 1)
            above, row[column] = row[column], best
    return row[-1]
