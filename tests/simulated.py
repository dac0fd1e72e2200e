"""Embedded clusters whose simulated hardware is what a declaration needs."""

from __future__ import annotations

from components.settings.cluster import Cluster
from lab import simulator
from lab.simulator.hardware import Hardware, hardware_of


def declared_hardware(declared: Cluster, *, with_hosts: bool = True) -> Hardware:
    """Return the hardware of a declaration: as if every declared machine were there."""
    return hardware_of(declared.pools, declared.hosts, declared.driver, with_hosts=with_hosts)


def simulate(name: str, declared: Cluster) -> simulator.Embedded:
    """Start an embedded cluster, or make its nodes be those of the declaration."""
    return simulator.start(name, declared_hardware(declared))
