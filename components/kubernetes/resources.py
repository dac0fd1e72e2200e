"""Names of resources and labels with which nodes advertise GPUs.

Settings, Pulumi resources and the local programs use these names, so this module imports neither
pydantic nor the Kubernetes client.
"""

from __future__ import annotations

import re
from typing import Final

GPU: Final = "nvidia.com/gpu"
DRA_DRIVER: Final = "gpu.nvidia.com"
"""Name of NVIDIA's DRA driver and of its DeviceClass of whole GPUs.

The driver's devices are listed in ResourceSlices, not in the status of the Node.
"""
DRIVER_LABEL: Final = "nvidia.com/cuda.driver-version.full"
"""Node label with the driver's version, by GPU Feature Discovery (k8s-device-plugin v0.20.0,
internal/lm).
"""
MIG_LABEL: Final = "nvidia.com/mig.config"
"""Node label with the name of a MIG layout from MIG manager's configuration."""
MIG_STATE: Final = "nvidia.com/mig.config.state"
"""Node label with the result of MIG manager's last change (NVIDIA/mig-parted v0.15.0,
pkg/mig/reconfigure/reconfigure.go).
"""
LAYOUTS: Final = ".layouts"
"""Suffix of the field manager that owns `MIG_LABEL`; names of pools contain no dot."""
ALL_DISABLED: Final = "all-disabled"
"""Name of the MIG layout without MIG devices.

The GPU Operator sets it on nodes without this label (gpu-operator v26.7.0,
controllers/nodelabeling_controller.go).
"""
_GPUS: Final = re.compile(r"nvidia\.com/(gpu|gpu\.shared|mig-.+)|tencent\.com/vcuda-core")


def is_gpu(resource: str) -> bool:
    """Return whether a resource counts whole, shared or partitioned GPUs, or parts of a GPU.

    Sources: NVIDIA/k8s-device-plugin v0.20.0, internal/rm (names of GPUs and of MIG devices);
    tkestack/gpu-manager, pkg/types. A resource that a stack renames is not recognized.
    """
    return resource == DRA_DRIVER or _GPUS.fullmatch(resource) is not None
