"""Embedded clusters whose simulated hardware matches a declared cluster."""

from __future__ import annotations

from gpu_cluster.settings.cluster import Cluster
from gpu_cluster_lab import simulator
from gpu_cluster_lab.simulator.hardware import Hardware, hardware_of


def declared_hardware(declared: Cluster, *, with_hosts: bool = True) -> Hardware:
    """Return simulated hardware on which every machine of a declared cluster exists."""
    return hardware_of(declared.pools, declared.hosts, with_hosts=with_hosts)


def simulate(name: str, declared: Cluster) -> simulator.Embedded:
    """Start an embedded cluster with the nodes of a declared cluster.

    If the embedded cluster already runs, change its nodes.
    """
    return simulator.start(name, declared_hardware(declared))
