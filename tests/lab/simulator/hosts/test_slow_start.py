"""A host on a busy machine, whose sshd answers late, has started and is not started again."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.hosts import lifecycle, processes
from gpu_cluster_lab.simulator.hosts.model import Spec

LATE = 3.0
"""Seconds until sshd has a process for a connection."""


@pytest.fixture
def late() -> Iterator[Spec]:
    """Yield a host whose SSH server sends its banner late on each connection."""
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            if not ended.wait(LATE):
                connection.sendall(b"SSH-2.0-late\r\n")

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=[server], daemon=True)
        thread.start()
        port = server.getsockname()[1]
        yield Spec("gpu-1", "127.0.0.1", port, "root", "", 0, "", "plain", "", "")
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_late_banner_is_awaited(
    late: Spec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "lives", lambda folder: True)
    monkeypatch.setattr(lifecycle, "START_LIMIT", 5 * LATE)
    lifecycle._await_banner(tmp_path, late)


def test_a_host_with_a_late_banner_is_left_alone(late: Spec, tmp_path: Path) -> None:
    late.save(tmp_path)
    assert not lifecycle._start_host(tmp_path, late, running=True)
