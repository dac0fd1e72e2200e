"""Linux namespaces of a test node: what they contain, and that they end with the run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster_lab.simulator.hosts import rootfs
from gpu_cluster_lab.toolchain.cache import link
from lab.real import build, cgroups
from lab.real.mock import Mock
from lab.real.node import Node
from lab.real.relay import End, Relay

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]
NAME = "a-test"
# Program that starts a test node and then waits until it is killed.
RUN = """
import sys, time
from pathlib import Path
from lab.real.mock import Mock
from lab.real.node import Node
work, lower = Path(sys.argv[1]), Path(sys.argv[2])
print(Node("a-test", work, lower, {}, Mock("a-test")).spawn(), flush=True)
time.sleep(60)
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "node"
    link(build.build("mock")["probe"], folder / "bin" / "probe")
    yield folder
    cgroups.remove(NAME)


@pytest.fixture
def lower() -> Path:
    return rootfs.debian_root(print)


def ends(pid: int) -> bool:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{pid}").exists()


def test_a_node_has_namespaces_devices_and_nothing_of_the_machine(work: Path, lower: Path) -> None:
    node = Node(NAME, work, lower, {}, Mock(NAME))
    pid = node.spawn()
    try:
        for kind in ("mnt", "pid_for_children", "net", "uts", "ipc"):
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
        assert node.run("hostname").strip() == NAME
        assert node.run("ls /dev/nvidia[0-9]*").split() == [f"/dev/nvidia{i}" for i in range(8)]
        # The node has its own network namespace, without a default route.
        assert node.run("cat /proc/net/route").count("\n") == 2
        assert str(work) not in Path("/proc/self/mounts").read_text()
    finally:
        node.stop()
    assert ends(pid)
    assert not work.exists()


def test_a_killed_run_takes_its_node_with_it(work: Path, lower: Path) -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, str(work), str(lower)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert run.stdout is not None
    with run.stdout:
        pid = int(run.stdout.readline())
        run.send_signal(signal.SIGKILL)
        run.wait(30)
    assert ends(pid)


def test_a_node_reaches_the_relayed_port_alone(work: Path, lower: Path) -> None:
    node = Node(NAME, work, lower, {}, Mock(NAME))
    pid = node.spawn()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        relay = Relay(End(pid, port), End(0, port))
        try:
            with subprocess.Popen(
                [
                    "nsenter",
                    "-t",
                    str(pid),
                    "-n",
                    "bash",
                    "-c",
                    f"echo hello >/dev/tcp/127.0.0.1/{port}",
                ]
            ) as client:
                server.settimeout(30)
                near, _ = server.accept()
                with near:
                    near.settimeout(30)
                    assert near.recv(16) == b"hello\n"
                assert client.wait(30) == 0
        finally:
            relay.close()
            node.stop()
