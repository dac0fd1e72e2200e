"""First start of an embedded cluster: interrupted, failing, or on an unusual machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_cluster.machine import processes
from gpu_cluster_lab import simulator, toolchain
from gpu_cluster_lab.simulator import SimulatorError, control_plane
from gpu_cluster_lab.simulator.control_plane import COMPONENTS, CONTROLLER, ControlPlane
from gpu_cluster_lab.simulator.hardware import write_hardware
from tests.guard import own_name
from tests.proofs.simulator.running import CLUSTER, Running, declared, until
from tests.simulated import declared_hardware, simulate

ROOT = Path(__file__).parents[3]
SECONDS = 200
"""Seconds that one start may take on a busy machine."""
WORDS = {
    "kwokctl": "kwokctl",
    **{name: f"/bin/{name}" for name in COMPONENTS},
    "controller": CONTROLLER,
}
"""Processes of a first start, each with a part of its command line."""
FILES = (
    "bin/kubectl",
    "kwok.yaml",
    "kwokctl.log",
    ".kwok/clusters/{}/kwok.yaml",
    ".kwok/clusters/{}/pki/ca.crt",
    ".kwok/clusters/{}/pki/admin.key",
    ".kwok/clusters/{}/kubeconfig.yaml",
    *(f".kwok/clusters/{{}}/pids/{name}.pid" for name in COMPONENTS),
    "kubeconfig",
    "made",
    "controller.pid",
    "controller.ready",
)
"""Files that a first start creates, relative to the cluster's folder."""


class First:
    """Embedded cluster that doesn't exist yet."""

    def __init__(self, folder: Path) -> None:
        self.plane = ControlPlane(own_name("first"))
        self.name = self.plane.name
        self.file = folder / f"{self.name}.yaml"
        write_hardware(self.file, self.name, declared_hardware(declared()))

    def start(self, *around: str, **environment: str) -> subprocess.Popen[str]:
        """Start the cluster in a subprocess.

        Args:
            around: Command that runs the start command, such as `unshare`.
            environment: Additional environment variables.
        """
        command = [sys.executable, "-m", "gpu_cluster_lab.simulator", "up", "--name", self.name]
        return subprocess.Popen(
            [*around, *command, "--hardware", str(self.file)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def pids(self, word: str) -> list[int]:
        """Return the pids of the cluster's processes whose command line contains this word."""
        marked = processes.marked(self.plane.directory)
        return [pid for pid in marked if processes.is_running(pid, word)]

    def assert_whole(self) -> None:
        """Check that the cluster is complete and that each of its processes runs exactly once."""
        simulate(self.name, declared())
        status = simulator.status(self.name)
        assert status.ready
        assert sorted(status.running.values()) == processes.marked(self.plane.directory)
        running = Running(simulate(self.name, declared()))
        assert running.items("/api/v1/nodes")
        assert running.embedded.kubeconfig.stat().st_mode & 0o077 == 0
        assert not running.embedded.started

    def assert_nothing_left(self) -> None:
        simulator.down(self.name)
        assert processes.marked(self.plane.directory) == []
        assert not self.plane.directory.exists()


@pytest.fixture
def first(home: Path, tmp_path: Path) -> Iterator[First]:
    made = First(tmp_path)
    yield made
    simulator.down(made.name)


def when(holds: Callable[[], object], run: subprocess.Popen[str]) -> None:
    """Wait until a condition is true or the process has ended."""
    deadline = time.monotonic() + SECONDS
    while not holds() and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def output(run: subprocess.Popen[str]) -> str:
    text, _ = run.communicate(timeout=SECONDS)
    return text


@pytest.fixture
def fake_api_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that puts a fake API server on PATH before the real one.

    The fake prints the real version and then runs the given shell lines.
    """
    real = toolchain.ensure("kube-apiserver")["kube-apiserver"].path

    def make(lines: str) -> str:
        program = tmp_path / "fake" / "kube-apiserver"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\n[ "$1" != --version ] || exec {real} --version\n{lines}\n')
        program.chmod(0o755)
        return f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    return make


@pytest.mark.promise(
    "A start of the embedded cluster ends when a component has ended, and quotes its last line."
)
def test_a_start_names_the_component_that_ended_and_its_last_line(
    first: First, fake_api_server: Callable[[str], str]
) -> None:
    path = fake_api_server("printf 'F1 no entropy \\033[31mred\\n' >&2; exit 1")
    begun = time.monotonic()
    run = first.start(PATH=path)
    text = output(run)
    assert run.returncode == 1
    (line,) = text.splitlines()
    assert "kube-apiserver has ended, its log ends with: F1 no entropy \\x1b[31mred;" in line
    assert time.monotonic() - begun < control_plane.CREATE_SECONDS / 2
    # The other processes keep running, for diagnosis, until the next run or `down`.
    assert first.pids("") != []
    first.assert_nothing_left()


@pytest.mark.full
@pytest.mark.promise("A first start that was killed before the API server came up is made again.")
def test_a_cluster_whose_api_server_never_came_up_is_made_again(
    first: First, fake_api_server: Callable[[str], str]
) -> None:
    run = first.start(PATH=fake_api_server("sleep 1000 & wait"))
    pid_file = first.plane.cluster / "pids" / "kube-scheduler.pid"
    when(pid_file.exists, run)
    time.sleep(2)
    run.kill()
    output(run)
    # kwokctl keeps running after the process that started it was killed.
    assert first.pids("kwokctl")
    first.assert_whole()
    assert not first.pids("sleep")
    first.assert_nothing_left()


@pytest.mark.full
@pytest.mark.promise(
    "After a SIGKILL at any file that a first start writes, the next `gpu-cluster up` heals "
    "the cluster."
)
@pytest.mark.parametrize("file", FILES)
def test_a_first_start_killed_at_a_file_heals(first: First, file: str) -> None:
    run = first.start()
    when((first.plane.directory / file.format(first.name)).exists, run)
    run.kill()
    output(run)
    first.assert_whole()
    first.assert_nothing_left()


@pytest.mark.full
@pytest.mark.promise(
    "After a SIGKILL of any process of a first start, this or the next `gpu-cluster up` heals "
    "the cluster."
)
@pytest.mark.parametrize("process", WORDS)
def test_a_first_start_whose_process_is_killed_heals(first: First, process: str) -> None:
    run = first.start()
    when(lambda: first.pids(WORDS[process]), run)
    for pid in first.pids(WORDS[process]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    text = output(run)
    assert run.returncode == 0 or process in text, text
    assert "Traceback" not in text
    first.assert_whole()
    first.assert_nothing_left()


@pytest.mark.full
@pytest.mark.promise("The embedded cluster starts on a machine without a default route.")
def test_it_starts_without_a_default_route_and_with_proxies(first: First) -> None:
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "-r", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"]).returncode:
        pytest.skip("no network namespaces here")
    loopback = 'ip link set lo up && exec "$@"'
    proxies = {
        name: "http://127.0.0.1:9"
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY")
    }
    run = first.start(*namespace, "sh", "-c", loopback, "sh", **proxies)
    text = output(run)
    assert run.returncode == 0, text
    assert "4 simulated nodes" in text
    first.assert_nothing_left()


@pytest.mark.promise("Without a loopback interface a start says so at once.")
def test_a_machine_whose_loopback_is_down_is_named(first: First) -> None:
    namespace = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "-r", "--net"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, "true"]).returncode:
        pytest.skip("no network namespaces here")
    run = first.start(*namespace)
    (line,) = output(run).splitlines()
    assert run.returncode == 1
    assert "wanted: an interface lo that is up" in line


@pytest.mark.full
@pytest.mark.promise(
    "After etcd or the API server was killed, `gpu-cluster up` heals it and keeps its objects."
)
@pytest.mark.parametrize("component", ["etcd", "kube-apiserver", "kube-controller-manager"])
def test_a_killed_part_of_the_control_plane_comes_back(cluster: Running, component: str) -> None:
    uid = cluster.node("gpu-1")["metadata"]["uid"]
    os.kill(simulator.status(CLUSTER).running[component], signal.SIGKILL)
    until(lambda: simulator.status(CLUSTER).missing, lambda missing: component in missing)
    assert simulate(CLUSTER, declared()).started
    assert simulator.status(CLUSTER).ready
    assert cluster.node("gpu-1")["metadata"]["uid"] == uid


@pytest.mark.full
@pytest.mark.promise("No wait for nodes goes on after the program that makes them Ready has ended.")
def test_a_wait_for_nodes_ends_with_the_component(cluster: Running) -> None:
    pid = simulator.status(CLUSTER).running["kwok-controller"]
    os.kill(pid, signal.SIGSTOP)  # While kwok-controller is stopped, the node can't become Ready.
    end = threading.Timer(3, os.kill, (pid, signal.SIGKILL))
    end.start()
    more = ({"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8},)
    try:
        begun = time.monotonic()
        with pytest.raises(SimulatorError, match="kwok-controller has ended, its log ends with"):
            simulate(CLUSTER, declared(*more))
        assert time.monotonic() - begun < 20
    finally:
        end.join()
        simulate(CLUSTER, declared())
