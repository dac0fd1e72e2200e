"""Desired state of the GPU monitoring."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_cluster.settings.monitoring import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class WatchedPool:
    """Nodes and GPUs that the alerts expect in a pool whose nodes are declared by name.

    Attributes:
        name: Name of the pool.
        nodes: Names of the pool's nodes, without nodes in maintenance.
        gpus: Total number of GPUs that these nodes advertise.
    """

    name: str
    nodes: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, kw_only=True)
class DesiredMonitoring:
    """Metrics, alerts and a dashboard for the GPUs.

    Attributes:
        settings: Section `monitoring` of the stack file.
        pools: Pools with GPUs whose nodes are declared by name.
    """

    stack: str
    settings: MonitoringSettings
    pools: tuple[WatchedPool, ...]
