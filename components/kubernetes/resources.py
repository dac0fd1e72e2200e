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
MIG_LABEL: Final = "nvidia.com/mig.config"
"""On a node: the layout of its GPUs, a name of MIG manager's configuration."""
MIG_STATE: Final = "nvidia.com/mig.config.state"
"""On a node: what MIG manager made of it (NVIDIA/mig-parted v0.15.0,
pkg/mig/reconfigure/reconfigure.go)."""
LAYOUTS: Final = ".layouts"
"""End of the name of the field manager that holds `MIG_LABEL`; no pool's name has a dot."""
ALL_DISABLED: Final = "all-disabled"
"""The layout of whole GPUs. The operator gives it to nodes without a label (gpu-operator v26.7.0,
controllers/nodelabeling_controller.go)."""
