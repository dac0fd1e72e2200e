"""Tests of the first start of simulated hosts, which is killed at several points."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator import hosts
from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import cluster_dir, hosts_dir
from gpu_cluster_lab.simulator.ports import free_ports
from tests.guard import own_name
from tests.proofs.e2e.simulated_hosts import up

ROOT = Path(__file__).parents[3]
SECONDS = 200
"""Time limit of one start in seconds, on a busy machine."""
FILES = (
    "overlay-trial",
    "hosts.lock",
    "hosts/gpu-1",
    "hosts/gpu-1/ssh/host_key",
    "hosts/gpu-1/spec.json",
    "hosts/gpu-1/work",
    "hosts/gpu-1/start.lock",
    "hosts/gpu-1/log",
    "hosts/gpu-1/pid",
    "hosts/gpu-2/spec.json",
    "hosts/gpu-2/pid",
)
"""Files that a first start writes into the cluster's folder, in this order."""
START = """
import sys
from tests.proofs.e2e.simulated_hosts import up
up(sys.argv[1], [int(port) for port in sys.argv[2:]])
"""


class First:
    """Two simulated hosts that are declared but were never started."""

    def __init__(self) -> None:
        self.name = own_name("hosts")
        self.ports = free_ports(2)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", START, self.name, *map(str, self.ports)]
        return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)

    def pids(self, host: str = "gpu-1") -> list[int]:
        return processes.find(hosts_dir(self.name) / host)

    def assert_whole(self) -> None:
        """Start the hosts again: the first start repairs them, and the second changes nothing."""
        status = up(self.name, self.ports)
        assert [host.running for host in status] == [True, True]
        assert [host.pid for host in up(self.name, self.ports)] == [host.pid for host in status]
        for host in ("gpu-1", "gpu-2"):
            root = hosts.root_of(self.name, host)
            assert root is not None
            assert (root / "run/gpu-cluster-simulated").exists()

    def assert_nothing_left(self) -> None:
        hosts.down(self.name)
        assert not self.pids("gpu-1") + self.pids("gpu-2")
        assert not hosts_dir(self.name).exists()


@pytest.fixture
def first() -> Iterator[First]:
    made = First()
    yield made
    hosts.down(made.name)


def when(holds: Callable[[], object], run: subprocess.Popen[bytes]) -> None:
    """Wait until a condition is true or the process has ended."""
    deadline = time.monotonic() + SECONDS
    while not holds() and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.0005)


@pytest.mark.full
@pytest.mark.promise(
    "After a SIGKILL while the simulated hosts start, the next `gpu-cluster up` heals them."
)
@pytest.mark.parametrize("file", FILES)
def test_a_first_start_killed_at_a_file_heals(first: First, file: str) -> None:
    run = first.start()
    when((cluster_dir(first.name) / file).exists, run)
    run.kill()
    run.communicate(timeout=SECONDS)
    first.assert_whole()
    first.assert_nothing_left()


@pytest.mark.full
@pytest.mark.promise(
    "After a SIGKILL of a host's own processes, the next `gpu-cluster up` heals it."
)
@pytest.mark.parametrize("after", [0.0, 0.05, 0.2])
def test_a_host_whose_processes_are_killed_heals(first: First, after: float) -> None:
    run = first.start()
    when(first.pids, run)
    time.sleep(after)
    for pid in first.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, errors = run.communicate(timeout=SECONDS)
    assert run.returncode == 0 or b"host gpu-1: it ended on 127.0.0.1:" in errors, errors
    first.assert_whole()
    first.assert_nothing_left()
