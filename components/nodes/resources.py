"""Names under which nodes offer GPUs.

Settings, Pulumi and the programs of Commands use them, so this imports neither pydantic nor the
Kubernetes client.
"""

from __future__ import annotations

from typing import Final

GPU: Final = "nvidia.com/gpu"
DRA_DRIVER: Final = "gpu.nvidia.com"
"""NVIDIA's DRA driver, and its class of whole GPUs: its devices are in ResourceSlices, not in the
node's status."""
