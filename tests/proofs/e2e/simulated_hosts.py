"""Start simulated SSH hosts without a stack."""

from __future__ import annotations

from gpu_cluster.settings.hosts.host import Host, Role
from gpu_cluster_lab.simulator import hosts


def up(name: str, ports: list[int]) -> list[hosts.HostStatus]:
    """Start one simulated host for each port."""
    declared = [
        Host(
            name=(host := f"gpu-{number}"),
            role=Role.GPU_WORKER,
            address="127.0.0.1",
            port=port,
            host_key=hosts.host_public_key(host),
        )
        for number, port in enumerate(ports, 1)
    ]
    return hosts.up(name, declared, hosts.client_key(name)[1])
