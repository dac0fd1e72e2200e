"""The environment variables by which the NVIDIA runtime selects the devices of a container."""

from __future__ import annotations

from typing import Final

VARIABLE: Final = "NVIDIA_VISIBLE_DEVICES"
CHANNELS: Final = "NVIDIA_IMEX_CHANNELS"
VARIABLES: Final = (CHANNELS, "NVIDIA_NVSWITCH", VARIABLE)
"""GPUs, channels to the memory of other nodes, and the switches between GPUs:
nvidia-container-toolkit v1.20.2 internal/config/image/cuda_image.go and internal/modifier/cdi.go.
"""

# The NVIDIA runtime treats an empty variable as the value `void`:
# nvidia-container-toolkit internal/config/image.
NO_DEVICES: Final = ("", "none", "void")
