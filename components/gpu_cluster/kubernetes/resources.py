"""Names of resources and labels with which nodes advertise GPUs.

Settings, Pulumi resources and the local programs use these names, so this module imports neither
pydantic nor the Kubernetes client.
"""

from __future__ import annotations

from typing import Final

from gpu_rules.kube.gpu_resources import VCUDA_CORE, is_gpu_device

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
UPGRADE: Final = "nvidia.com/gpu-driver-upgrade-state"
"""Label with the state of the GPU Operator's driver upgrade on a node."""
AT_REST: Final = ("", "upgrade-done")
"""Values of the upgrade label while the operator does nothing on the node.

Source: NVIDIA/k8s-operator-libs, pkg/upgrade/consts.go.
"""
PLUGIN_LABEL: Final = "nvidia.com/gpu.deploy.device-plugin"
"""Node label that lets the GPU Operator's device plugin run there.

Its value begins with `paused-for-` while the driver manager or the MIG manager works on the node
(NVIDIA/k8s-driver-manager v0.12.0; NVIDIA/mig-parted v0.15.0, pkg/mig/reconfigure/reconfigure.go).
"""
LAYOUTS: Final = ".layouts"
"""Suffix of the field manager that owns `MIG_LABEL`; names of pools contain no dot."""
ALL_DISABLED: Final = "all-disabled"
"""Name of the MIG layout without MIG devices.

The GPU Operator sets it on nodes without this label (gpu-operator v26.7.0,
controllers/nodelabeling_controller.go).
"""


def counts_gpus(resource: str) -> bool:
    """Return whether a resource counts whole, shared or partitioned GPUs, or parts of a GPU.

    A resource that a stack renames is not recognized.
    """
    return is_gpu_device(resource) or resource in (DRA_DRIVER, VCUDA_CORE)
