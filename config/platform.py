"""What serves the GPUs to Kubernetes."""

from __future__ import annotations

from enum import StrEnum


class Platform(StrEnum):
    """`device-plugin`: NVIDIA's device plugin alone. `gpu-operator`: the whole GPU Operator."""

    DEVICE_PLUGIN = "device-plugin"
    GPU_OPERATOR = "gpu-operator"
