"""Free loopback ports, chosen so that two clusters that start at once do not meet."""

from __future__ import annotations

import contextlib
import random
import socket

#: Below 32768: no outgoing connection takes one before it is used.
PORT_RANGE = range(20_000, 32_000)


class PortError(OSError):
    """Too few free ports; the message says how many were found and the cure."""


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, chosen at random.

    :raises PortError: too few are free.
    """
    chosen: list[int] = []
    candidates = random.SystemRandom().sample(PORT_RANGE, 200 + count)
    for port in candidates:
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise PortError(
        f"ports: {len(chosen)} of {len(candidates)} tried between {PORT_RANGE.start} and "
        f"{PORT_RANGE.stop} are free; wanted: {count}; cure: end what holds them"
    )
