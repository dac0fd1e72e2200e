"""Names of extended resources, and which of them are GPU resources."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from .context import Context

GPU: Final = "nvidia.com/gpu"
GPU_SHARED: Final = "nvidia.com/gpu.shared"
VCUDA_CORE: Final = "tencent.com/vcuda-core"
VCUDA_MEMORY: Final = "tencent.com/vcuda-memory"
PASSED_THROUGH: Final = "nvidia.com/pgpu"
"""A whole GPU for the virtual machine of a Kata container: NVIDIA/k8s-nim-operator
config/samples/nim/serving/standalone/confidential-computing.
"""
HAMI_MEMORY: Final = "nvidia.com/gpumem"
HAMI_CORES: Final = "nvidia.com/gpucores"
HAMI_PERCENTAGE: Final = "nvidia.com/gpumem-percentage"
MIG: Final = "nvidia.com/mig-"

# Sources: NVIDIA k8s-device-plugin, TKEStack gpu-manager pkg/types, HAMi pkg/device, AMD and Intel
# device plugins, kubeflow/arena pkg/serving (Alibaba Cloud), volcano-sh/volcano
# pkg/scheduler/api/well_known_labels.go, Project-HAMi/volcano-vgpu-device-plugin doc/config.md,
# grgalex/nvshare README, the agents of Tencent Cloud's qGPU and of AWS's virtual GPUs,
# koordinator-sh/koordinator apis/extension.
_OTHER_DEVICES = frozenset(
    {
        *("amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "gpu.intel.com/dxg"),
        *("birentech.com/gpu", "metax-tech.com/gpu", "metax-tech.com/sgpu", "mthreads.com/vgpu"),
        *(f"iluvatar.ai/{model}-vgpu" for model in ("BI-V100", "BI-V150", "MR-V100", "MR-V50")),
        *("aliyun.com/gpu-count", "k8s.amazonaws.com/vgpu", "koordinator.sh/gpu.shared"),
        *("nvshare.com/gpu", "volcano.sh/gpu-number", "volcano.sh/vgpu-number"),
    }
)
_OTHER_PARTS = frozenset(
    {
        *("aliyun.com/gpu-mem", "aliyun.com/gpu-core.percentage", "volcano.sh/gpu-memory"),
        *(f"volcano.sh/vgpu-{part}" for part in ("memory", "memory-percentage", "cores")),
        *(f"tke.cloud.tencent.com/qgpu-{part}" for part in ("core", "memory")),
        *("koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory"),
        "koordinator.sh/gpu-memory-ratio",
    }
)
"""Amounts of a GPU's memory or cores, of which one unit is not a device."""
OTHER_VENDORS: Final = _OTHER_DEVICES | _OTHER_PARTS
"""GPU resources that no platform of this program advertises."""
KNOWN: Final = OTHER_VENDORS | {
    GPU,
    GPU_SHARED,
    PASSED_THROUGH,
    VCUDA_CORE,
    VCUDA_MEMORY,
    HAMI_MEMORY,
    HAMI_PERCENTAGE,
    HAMI_CORES,
}
# The MIG profile 1c.2g.10gb+me is advertised as mig-1c.2g.10gb.me (NVIDIA k8s-device-plugin
# internal/resource/nvml-mig-device.go).
_MIG_FORM = re.compile(r"nvidia\.com/mig-([0-9]c\.)?[0-9]g\.[0-9]+gb(\.[a-z0-9.-]+)?")
_DOMAINS = ("nvidia.com", "tencent.com", "amd.com")
_MOST_LETTERS_OFF = 2
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
SOUNDS_LIKE_GPU: Final = "nvidia|gpu|vcuda|mig-|gaudi"
NETWORK: Final = "rdma|roce|sriov|mlnx|hostdev|hca|(^|[-_./])(nics?|ib|bf|sfs?|vfs?)([-_.]|$)"
"""Pattern of the names of network devices, which Mellanox/network-operator and
NVIDIA/doca-platform advertise under nvidia.com, too.
"""
BY_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource of each DeviceClass: k8s.io/api v0.34.4 resource/v1 types.go."""
DEVICES = frozenset({GPU, GPU_SHARED, PASSED_THROUGH}) | _OTHER_DEVICES
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
        name in KNOWN
        or name.startswith(MIG)
        or name in context.resource_names
        or name in context.devices.resources
        or (name.startswith(BY_CLASS) and sounds_like_gpu(name))
    )


def is_device(name: str, context: Context) -> bool:
    """Return whether one unit of a resource is a device or a share of a device.

    Resources for a part of a device's memory or cores are not devices. A resource that only the
    cluster's settings name counts as a device, unless it is that of a DeviceClass (GPU070).
    """
    own = name in context.resource_names and name not in KNOWN and not name.startswith(BY_CLASS)
    return own or name in DEVICES or name.startswith(MIG)


def sounds_like_gpu(name: str) -> bool:
    """Return whether a name may mean a GPU of some kind, such as KubeVirt's nvidia.com/GA102GL_A10.

    The test is a simple pattern, because the CEL expression of GPU032 uses the same pattern.
    """
    return re.search(SOUNDS_LIKE_GPU, name.lower()) is not None


def is_vcuda(name: str) -> bool:
    """Return whether a resource belongs to TKEStack's gpu-manager."""
    return name in (VCUDA_CORE, VCUDA_MEMORY)


def meant(name: str, context: Context) -> str | None:
    """Return the GPU resource that a wrong name probably means, or None.

    A name is wrong if no device plugin advertises it: the alpha name of Kubernetes 1.3 to 1.10, a
    known name in other case or with a common typo, a known name under a domain with up to two wrong
    letters or none, a plural, a number after the name, `_` for `-`, the prefix `requests.` or
    `limits.` of a quota in a container, or a MIG profile that does not exist.
    """
    if name in _NATIVE:
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
    for right in _near(domain) if domain or not slash else ():
        for candidate in (f"{right}/{form}" for form in _forms(local)):
            if candidate != name and is_gpu(candidate, context):
                return candidate
    return None


def _forms(local: str) -> tuple[str, ...]:
    """Return the names that a local name may mean: as it is, with dashes, singular, no number."""
    dashed = local.replace("_", "-")
    return tuple(
        dict.fromkeys((local, dashed, dashed.removesuffix("s"), dashed.rstrip("0123456789")))
    )


@lru_cache(maxsize=4096)
def _near(domain: str) -> list[str]:
    """Return the domains that a domain may mean.

    That is the domain itself, those that differ from it in at most two letters, those whose ending
    it lacks, and all of them if it is empty.
    """
    return [domain] + [
        known
        for known in _DOMAINS
        if domain in ("", known.removesuffix(".com"))
        or _letters_off(domain, known) <= _MOST_LETTERS_OFF
    ]


def _letters_off(first: str, second: str) -> int:
    """Return the number of letters to insert, remove or replace to turn one text into the other."""
    if abs(len(first) - len(second)) > _MOST_LETTERS_OFF:
        return _MOST_LETTERS_OFF + 1
    row = list(range(len(second) + 1))
    for index, letter in enumerate(first, 1):
        above, row[0] = row[0], index
        for column, other in enumerate(second, 1):
            best = min(above + (letter != other), row[column] + 1, row[column - 1] + 1)
            above, row[column] = row[column], best
    return row[-1]
