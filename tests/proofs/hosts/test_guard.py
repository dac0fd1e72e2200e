"""After a test process was killed, no simulated host, child process or file of it is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.hosts import processes
from gpu_cluster_lab.simulator.hosts.model import cluster_dir, hosts_dir

ROOT = Path(__file__).parents[3]
LIMIT = 120.0
"""Seconds that the guard process may take to clean up, even on a busy machine."""
KILLED = """
import os, signal, subprocess, sys
from tests import guard
from tests.proofs.hosts.machine import start

name = guard.own_name("killed")
start(name, "gpu-1", mode="plain")
child = subprocess.Popen(["sleep", "3600"])
print(name, child.pid, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_killed_test_process_leaves_nothing(how: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode < 0
    name, child = done.stdout.split()
    host = hosts_dir(name) / "gpu-1"
    deadline = time.monotonic() + LIMIT
    while processes.find(host) or cluster_dir(name).exists() or _lives(int(child)):
        assert time.monotonic() < deadline, processes.find(host)
        time.sleep(0.1)


def _lives(pid: int) -> bool:
    return b"sleep\0" in _command(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
