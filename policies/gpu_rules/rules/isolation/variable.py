"""The environment variable by which the NVIDIA runtime selects the devices of a container."""

from __future__ import annotations

VARIABLE = "NVIDIA_VISIBLE_DEVICES"

# The NVIDIA runtime treats an empty NVIDIA_VISIBLE_DEVICES as the value `void`:
# nvidia-container-toolkit internal/config/image.
NO_DEVICES = ("", "none", "void")
