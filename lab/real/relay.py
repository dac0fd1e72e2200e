"""TCP relay between two network namespaces: that of a node, and this machine's.

A node has its own network without outside access. Its programs reach the API server through a
relay, and the API server reaches the node's kubelet through a relay in the other direction. Each
direction of a connection has a thread, which ends when the relay is closed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

_CLONE_NEWNET = 0x40000000
_BYTES = 65536


class End(NamedTuple):
    """End of a relay: `port` of `address` in the network namespace of the process `pid`.

    A `pid` of 0 means this machine's network namespace.
    """

    pid: int
    port: int
    address: str = "127.0.0.1"


class Relay:
    """TCP relay that listens at one end and connects to the other end."""

    def __init__(self, near: End, far: End) -> None:
        """Start listening at the end `near`, and forward each connection to the end `far`."""
        self._far = far
        self._ended = False
        self._sockets: set[socket.socket] = set()
        self._listener = self._listen(near)
        threading.Thread(target=self._accept, daemon=True).start()

    def _listen(self, near: End) -> socket.socket:
        made: list[socket.socket] = []
        place = (near.address, near.port)
        _run_within(near.pid, lambda: made.append(socket.create_server(place, backlog=64)))
        return made[0]

    def close(self) -> None:
        """Stop listening and close all connections."""
        self._ended = True
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        # The listening socket keeps the network namespace in which it was created. This thread then
        # enters the network namespace of the far end, so it opens its connections there.
        if self._far.pid:
            _enter_namespace(self._far.pid)
        while not self._ended:
            try:
                near, _ = self._listener.accept()
            except OSError:
                continue
            try:
                far = socket.create_connection((self._far.address, self._far.port), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._sockets |= {near, far}
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_BYTES):
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
            self._sockets.discard(each)


def _run_within(pid: int, act: Callable[[], None]) -> None:
    """Run a function in the network namespace of a process, in a separate thread.

    A new thread is used each time, because a thread stays in the network namespace it has entered.
    """
    failed: list[OSError] = []

    def run() -> None:
        try:
            if pid:
                _enter_namespace(pid)
            act()
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]


def _enter_namespace(pid: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if library.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"network of process {pid}")
    finally:
        os.close(descriptor)
