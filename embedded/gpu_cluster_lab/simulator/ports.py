"""Choose free loopback ports at random, so that two clusters that start together don't collide."""

from __future__ import annotations

import contextlib
import random
import socket

LOOPBACK = "127.0.0.1"
#: Use only ports below 32768: from there on, the kernel assigns ports to outgoing connections and
#: could take a chosen port before it is used.
PORT_RANGE = range(20_000, 32_000)


class PortError(OSError):
    """Error: too few ports are free; the message has the number of free ports and the remedy."""


def free_ports(count: int) -> list[int]:
    """Return free loopback ports, chosen at random.

    Raises:
        PortError: Too few ports are free, or the loopback interface is down.
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
    """Check that the loopback interface is up; in a new network namespace it is down."""
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
