"""Free loopback ports, chosen so that two clusters that start at once do not meet."""

from __future__ import annotations

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
#: Below 32768: no outgoing connection takes one before it is used.
PORT_RANGE = range(20_000, 32_000)


class PortError(OSError):
    """Too few free ports; the message says how many were found and the cure."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, chosen at random.

    :raises PortError: too few are free, or loopback carries no connection.
    """
    _check_loopback()
    chosen: list[int] = []
    candidates = random.SystemRandom().sample(PORT_RANGE, 200 + count)
    for port in candidates:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise PortError(
        f"ports: {len(chosen)} of {len(candidates)} tried between {PORT_RANGE.start} and "
        f"{PORT_RANGE.stop} are free; wanted: {count}; cure: end what holds them"
    )


def _check_loopback() -> None:
    """Connect to a port of loopback: its interface is down in a fresh network namespace."""
    with socket.socket() as server, socket.socket() as client:
        server.bind((LOOPBACK, 0))
        server.listen()
        client.settimeout(5)
        try:
            client.connect(server.getsockname())
        except OSError as error:
            raise PortError(
                f"loopback: no connection to {LOOPBACK} ({error.strerror or error}); wanted: "
                "an interface lo that is up; cure: ip link set lo up"
            ) from error
