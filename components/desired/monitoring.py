"""What watches the GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from components.settings.monitoring import MonitoringSettings


@dataclass(frozen=True, kw_only=True)
class WatchedPool:
    """A pool whose nodes are declared by name, as alerts count it.

    Attributes:
        name: its name.
        nodes: names of its nodes without those in maintenance.
        gpus: GPUs that these nodes advertise together.
    """

    name: str
    nodes: tuple[str, ...]
    gpus: int


@dataclass(frozen=True, kw_only=True)
class DesiredMonitoring:
    """Metrics, alerts and a dashboard.

    Attributes:
        settings: the section `monitoring`.
        pools: pools with GPUs whose nodes are declared by name.
    """

    settings: MonitoringSettings
    pools: tuple[WatchedPool, ...]
