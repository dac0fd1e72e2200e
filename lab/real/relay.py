"""Lets the programs of a node reach the API server, which listens on the machine's loopback.

A node has a network of its own without a way out. The relay listens on the node's loopback, at the
API server's own port, and hands each connection on: one thread each way, ended with the relay.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import threading

_CLONE_NEWNET = 0x40000000
_BYTES = 65536


class Relay:
    """From 127.0.0.1:``port`` in the network of process ``pid`` to the same address here."""

    def __init__(self, pid: int, port: int) -> None:
        self._port = port
        self._ended = False
        self._sockets: set[socket.socket] = set()
        self._listener = self._listen(pid)
        threading.Thread(target=self._accept, daemon=True).start()

    def _listen(self, pid: int) -> socket.socket:
        made: list[socket.socket] = []
        failed: list[OSError] = []

        def enter() -> None:  # a thread of its own: it can't come back
            try:
                _enter(pid)
                made.append(socket.create_server(("127.0.0.1", self._port), backlog=64))
            except OSError as error:
                failed.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return made[0]

    def close(self) -> None:
        """End all connections."""
        self._ended = True
        for each in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        while not self._ended:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port), timeout=10)
            except OSError:
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


def _enter(pid: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        if library.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"network of process {pid}")
    finally:
        os.close(descriptor)
