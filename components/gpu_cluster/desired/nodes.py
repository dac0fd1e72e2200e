"""Desired state of nodes: the settings of stack, pool, host and node, laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpu_cluster.settings.hosts.driver import DriverSettings
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_rules.printable import shortened

Json = dict[str, Any]

_NAMED = 8


@dataclass(frozen=True, kw_only=True)
class DesiredNode:
    """Settings of a node, or settings that the nodes of a pool share.

    Attributes:
        pool: Name of the pool; empty if no pool lists the node.
        gpus: Number of GPUs of the node.
        sections: Sections of the node's host, or of the pool.
        labels: Labels by key.
        taints: Taints in the API server's form.
    """

    pool: str
    gpus: int
    sections: NodeSections
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Json, ...] = ()

    @property
    def driver(self) -> DriverSettings:
        """Return the driver of the node."""
        return self.sections.driver


@dataclass(frozen=True, kw_only=True)
class DesiredNodes:
    """Settings of all nodes.

    Attributes:
        by_pool: Settings that the nodes of a pool share, by name of the pool.
        by_name: Settings of each node that a pool lists by name or that is a host, by node.
    """

    by_pool: Mapping[str, DesiredNode]
    by_name: Mapping[str, DesiredNode]

    def driver_of(self, node: str, pool: str = "") -> DriverSettings:
        """Return the driver of a node; the default driver if neither node nor pool is declared.

        Args:
            pool: Pool of the node, if the pool selects its nodes by label.
        """
        settings = self.by_name.get(node) or self.by_pool.get(pool)
        return settings.driver if settings else DriverSettings()

    @property
    def driver_versions(self) -> dict[str, str]:
        """Return each declared driver version of nodes with GPUs, with its place in messages."""
        names: dict[str, list[str]] = {}
        for name, pool in self.by_pool.items():
            if pool.gpus and pool.driver.version:
                names.setdefault(pool.driver.version, []).append(f"pool {name}")
        for name, node in self.by_name.items():
            shared = self.by_pool.get(node.pool)
            version = node.driver.version
            if node.gpus and version and not (shared and shared.driver.version == version):
                names.setdefault(version, []).append(f"node {name}")
        if len(names) == 1:
            return dict.fromkeys(names, "driver.version")
        return {
            version: f"driver.version of {shortened(places, _NAMED)}"
            for version, places in names.items()
        }
