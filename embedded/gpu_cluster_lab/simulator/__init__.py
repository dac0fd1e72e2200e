"""Embedded test cluster: a real control plane, simulated GPU nodes and real SSH hosts.

Annotations mark simulated nodes, and the first line of a container log says that it is simulated.

>>> cluster = start("dev", load_hardware(path))             # doctest: +SKIP
>>> cluster.kubeconfig, cluster.context                     # doctest: +SKIP
"""

from gpu_cluster_lab.simulator.control_plane import SimulatorError
from gpu_cluster_lab.simulator.embedded import (
    Embedded,
    Status,
    authority,
    down,
    set_fault,
    start,
    status,
)

__all__ = [
    "Embedded",
    "SimulatorError",
    "Status",
    "authority",
    "down",
    "set_fault",
    "start",
    "status",
]
