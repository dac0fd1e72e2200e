"""Simulated SSH hosts: real `sshd` servers on loopback, each with its own file system.

As root on Linux, each host has its own mount, PID, UTS and IPC namespaces and an overlay on a
shared Debian root (`namespaced`). On other machines each host is an AsyncSSH server with a scratch
folder as `GPU_CLUSTER_ROOT` (`plain`). Simulated parts identify themselves:
`swapoff --version`, `systemctl --version`, `/run/gpu-cluster-simulated`.

>>> hosts.up("dev", cluster.hosts, authorized_key)      # doctest: +SKIP
>>> hosts.root_of("dev", "gpu-1") / "etc/fstab"         # doctest: +SKIP
"""

from gpu_cluster_lab.simulator.hosts.keys import client_key, host_public_key
from gpu_cluster_lab.simulator.hosts.lifecycle import down, root_of, status, up
from gpu_cluster_lab.simulator.hosts.model import HostError, HostSettings, HostStatus, SimulatedHost

__all__ = [
    "HostError",
    "HostSettings",
    "HostStatus",
    "SimulatedHost",
    "client_key",
    "down",
    "host_public_key",
    "root_of",
    "status",
    "up",
]
