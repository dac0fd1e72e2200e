"""Names of the resources with which device plugins and DRA drivers advertise GPUs."""

from __future__ import annotations

from typing import Final

from .vendor_resources import VENDORS

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

# Sources: NVIDIA k8s-device-plugin, TKEStack gpu-manager pkg/types, kubeflow/arena pkg/serving
# (Alibaba Cloud), volcano-sh/volcano pkg/scheduler/api/well_known_labels.go,
# Project-HAMi/volcano-vgpu-device-plugin doc/config.md, grgalex/nvshare README, the agents of
# Tencent Cloud's qGPU and of AWS's virtual GPUs, koordinator-sh/koordinator apis/extension. Those
# of the other vendors are in `vendor_resources`.
_OTHER_DEVICES = frozenset(
    {
        *(name for vendor in VENDORS for name in vendor.devices),
        *("aliyun.com/gpu-count", "k8s.amazonaws.com/vgpu", "koordinator.sh/gpu.shared"),
        *("nvshare.com/gpu", "volcano.sh/gpu-number", "volcano.sh/vgpu-number"),
    }
)
_OTHER_PARTS = frozenset(
    {
        *(name for vendor in VENDORS for name in vendor.parts),
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
DEVICES: Final = frozenset({GPU, GPU_SHARED, PASSED_THROUGH}) | _OTHER_DEVICES
"""Resources of which one unit is a device or a share of a device."""
BY_CLASS: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the extended resource of each DeviceClass: k8s.io/api v0.34.4 resource/v1 types.go."""


def is_gpu_resource(name: str) -> bool:
    """Return whether a resource is a well-known one of GPUs or of their memory or cores."""
    return name in KNOWN or name.startswith(MIG)


def is_gpu_device(name: str) -> bool:
    """Return whether one unit of a well-known resource is a GPU, a share of it or a MIG device."""
    return name in DEVICES or name.startswith(MIG)


def is_vcuda(name: str) -> bool:
    """Return whether a resource belongs to TKEStack's gpu-manager."""
    return name in (VCUDA_CORE, VCUDA_MEMORY)
