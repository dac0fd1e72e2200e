"""Pulumi components that turn hosts into a Kubernetes cluster with validated GPUs.

The components are imported when a program uses them. `import gpu_cluster` alone loads neither
Pulumi nor pydantic, so the help of a command is shown without waiting for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpu_cluster.cluster import (
        GpuCluster,
        GpuClusterArgs,
        GpuDevicePlugin,
        GpuGuardrails,
        GpuHosts,
        GpuOperator,
        GpuValidation,
    )

__all__ = [
    "GpuCluster",
    "GpuClusterArgs",
    "GpuDevicePlugin",
    "GpuGuardrails",
    "GpuHosts",
    "GpuOperator",
    "GpuValidation",
]


def __getattr__(name: str) -> Any:
    """Import a component at its first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gpu_cluster import cluster

    return getattr(cluster, name)
