"""`up` doesn't connect to a host in maintenance, and keeps the settings applied on the host."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab.simulator import hosts as simulated
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import hosts_dir
from lab.benchmarks.host_stack import HostStack, declared
from tests.proofs.hosts.machine import Declared, Running, free_port, start

pytestmark = pytest.mark.full

KEPT = "/var/lib/gpu-cluster/prepare"
SYSCTL = "vm.max_map_count"


@contextmanager
def listening(port: int) -> Iterator[list[str]]:
    """Listen on the SSH port of a host that is down; yield a list that records each connection."""
    seen: list[str] = []

    def take() -> None:
        while True:
            try:
                connection, peer = server.accept()
            except OSError:
                return
            seen.append(str(peer))
            connection.close()

    with socket.create_server(("127.0.0.1", port)) as server:
        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield seen
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def up(stack: HostStack, *more: str) -> str:
    done = stack.run("up", "--yes", "--skip-preview", *more)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def test_a_host_in_maintenance_is_not_connected_to_and_is_as_before_when_it_is_back(
    cluster: str, namespaces: None, tmp_path: Path
) -> None:
    hosts = start(cluster, "gpu-1", "gpu-2", mode="namespaces")
    new = Declared("gpu-3", free_port())
    path, public = simulated.client_key(cluster)
    stack = HostStack.make(tmp_path, "maintenance", [host.declared for host in hosts], path)
    up(stack)
    both: dict[str, Any] = declared([*(host.declared for host in hosts), new])
    both |= {"system": {"sysctl": {SYSCTL: "262145"}}, "ssh": {"dialErrorLimit": 1}}

    processes.end(hosts_dir(cluster) / "gpu-2")
    stack.write({**both, "maintenance": ["gpu-[2-3]"]})
    stack.environment = {**stack.environment, "VERBOSE": "1"}
    with listening(hosts[1].declared.port) as known, listening(new.port) as unknown:
        said = up(stack)
        assert "in maintenance, so left alone: gpu-2..3" in said
        assert says(hosts[0]) == "262145"
        up(stack, "--expect-no-changes")
        assert (known, unknown) == ([], [])
        stack.write({**both, "maintenance": ["gpu-3"]})
        assert stack.run("up", "--yes", "--skip-preview").returncode != 0
        assert known
        assert unknown == []

    simulated.up(
        cluster,
        [host.declared for host in hosts],
        public,
        simulated.HostSettings(mode="namespaces"),
    )
    assert says(hosts[1]) != "262145"
    up(stack)
    assert says(hosts[1]) == "262145"

    # `destroy` keeps the settings that were applied on a host in maintenance.
    stack.write({**both, "maintenance": ["gpu-[2-3]"]})
    up(stack)
    before = hosts[1].tree()
    done = stack.run("destroy", "--yes", "--skip-preview")
    assert done.returncode == 0, done.stdout[-3000:]
    assert not hosts[0].exists(KEPT)
    assert hosts[1].exists(KEPT)
    assert hosts[1].tree() == before


def says(host: Running) -> str:
    """Return the value of the kernel parameter that the stack wrote on the host."""
    lines = host.run(f"grep -rhs '^{SYSCTL}' /etc/sysctl.d").output
    return lines.partition("=")[2].strip()
