"""The embedded cluster: a real control plane, simulated GPU nodes, real SSH hosts.

>>> cluster = start("dev", load_hardware(path))             # doctest: +SKIP
>>> cluster.kubeconfig, cluster.context                     # doctest: +SKIP

Whatever is simulated is marked so: nodes by annotations, logs by their first line.
"""

from lab.simulator.control_plane import SimulatorError
from lab.simulator.embedded import Embedded, Status, authority, down, set_fault, start, status

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
