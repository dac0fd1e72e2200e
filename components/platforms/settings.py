"""What serves the GPUs to Kubernetes."""

from __future__ import annotations

from enum import StrEnum


class Platform(StrEnum):
    """How GPUs are offered in the cluster.

    `device-plugin`: NVIDIA's device plugin alone. `gpu-operator`: the whole GPU Operator.
    `gpu-manager`: TKEStack's gpu-manager, which shares cards (`tencent.com/vcuda-core`).
    `dra`: NVIDIA's driver for Dynamic Resource Allocation.

    With `driver.source` these make six ways: device-plugin on installed drivers or with the driver
    by DaemonSet, gpu-operator with its own driver or on installed ones, gpu-manager, dra.
    """

    DEVICE_PLUGIN = "device-plugin"
    GPU_OPERATOR = "gpu-operator"
    GPU_MANAGER = "gpu-manager"
    DRA = "dra"
