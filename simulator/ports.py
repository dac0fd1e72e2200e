"""Free ports for the control plane, chosen so that two clusters that start at once do not meet."""

from __future__ import annotations

import contextlib
import random
import socket

#: Ports of kwokctl's options. kwokctl alone takes the highest free ones, so that two clusters that
#: start at once take the same; below 32768 no outgoing connection takes them meanwhile.
PORTS = (
    "etcdPort",
    "etcdPeerPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)
PORT_RANGE = range(20_000, 32_000)


class PortError(OSError):
    """Too few free ports; the message says how many were found and the cure."""


def free_ports() -> dict[str, int]:
    """One free loopback port for each of `PORTS`, chosen at random.

    :raises PortError: too few are free.
    """
    chosen: dict[str, int] = {}
    candidates = random.SystemRandom().sample(PORT_RANGE, 200)
    for port in candidates:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            chosen[PORTS[len(chosen)]] = port
        if len(chosen) == len(PORTS):
            return chosen
    raise PortError(
        f"ports: {len(chosen)} of {len(candidates)} tried between {PORT_RANGE.start} and "
        f"{PORT_RANGE.stop} are free; wanted: {len(PORTS)}; cure: end what holds them"
    )
