"""The variable by which the NVIDIA runtime gives a container its devices."""

from __future__ import annotations

VARIABLE = "NVIDIA_VISIBLE_DEVICES"

NO_DEVICES = ("", "none", "void")  # empty is void: nvidia-container-toolkit internal/config/image
