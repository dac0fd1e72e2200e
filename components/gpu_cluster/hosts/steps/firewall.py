"""Step that turns the host's firewall off, or opens the ports that the host's role needs."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.step import Given, Step
from gpu_cluster.settings.hosts.host import Role
from gpu_cluster.settings.hosts.system import Firewall

CONTROL_PLANE_PORTS = ("6443/tcp", "2379-2380/tcp", "10250/tcp", "10257/tcp", "10259/tcp")
WORKER_PORTS = ("10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp")
"""Ports of worker nodes (Kubernetes documentation, "Ports and Protocols")."""


def ports_of(role: Role) -> tuple[str, ...]:
    """Return the ports that a role needs, with duplicates for a host with both roles."""
    control_plane = CONTROL_PLANE_PORTS if role.is_control_plane else ()
    return control_plane + (WORKER_PORTS if role.is_worker else ())


def _firewall_inputs(host: DesiredHost) -> Given | None:
    if host.sections.system.firewall is Firewall.LEAVE:
        return None
    ports = dict.fromkeys(ports_of(host.role) + host.sections.system.firewall_ports)
    settings = {"GC_FIREWALL": host.sections.system.firewall.value, "GC_PORTS": " ".join(ports)}
    return Given(settings=settings)


STEP = Step(
    does="opens ports of the firewall or turns it off", given=_firewall_inputs, after="selinux"
)
