"""Functions of `library/etcd.sh` and the documented restore with a real etcd, etcdctl and etcdutl.

etcd has one member without TLS on loopback. kubectl is a fake that runs etcdctl on this machine: it
leaves out the options for certificates, and writes files below the host's root.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpu_cluster.hosts.script import FOLDER
from gpu_cluster_lab import toolchain
from lab.real import build
from tests.fixtures.programs import run_program
from tests.proofs.ha.site import documented_restore

pytestmark = [
    pytest.mark.full,
    pytest.mark.ha("etcd"),
    pytest.mark.skipif(bool(build.missing()), reason=f"make test-real {build.missing()}"),
]

KUBECTL = """#!/bin/sh
while [ "$1" != etcdctl ]; do shift; done
shift 7
case "$*" in "snapshot save "*) set -- snapshot save "$ROOT$3" ;; esac
exec etcdctl --endpoints "$ENDPOINT" "$@"
"""
QUOTA = 16 * 1024 * 1024
"""Bytes of etcd's data from which it raises the alarm NOSPACE."""
DATA = "var/lib/etcd"
NODE = "cp-1"


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@dataclass
class Host:
    """A control-plane host's root in a folder, with a real etcd on its data."""

    root: Path
    client: int
    peer: int

    @property
    def environment(self) -> dict[str, str]:
        folders = (self.root / "programs", *self._tools, "/usr/sbin", "/usr/bin", "/sbin", "/bin")
        return {
            "PATH": ":".join(map(str, folders)),
            "ROOT": str(self.root),
            "GPU_CLUSTER_ROOT": str(self.root),
            "ENDPOINT": f"http://127.0.0.1:{self.client}",
        }

    @property
    def _tools(self) -> set[Path]:
        return {path.parent for path in build.build_etcd_tools().values()}

    @contextmanager
    def etcd(self) -> Iterator[None]:
        """Run etcd meanwhile."""
        peer, client = (f"http://127.0.0.1:{port}" for port in (self.peer, self.client))
        command = [
            str(toolchain.ensure("etcd")["etcd"].path),
            *("--name", NODE, "--data-dir", str(self.root / DATA), "--log-level", "error"),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--initial-cluster", f"{NODE}={peer}", "--quota-backend-bytes", str(QUOTA)),
        ]
        with subprocess.Popen(command) as process:
            try:
                while run_program(
                    [*self.etcdctl, "get", "x"], env=self.environment, timeout=30
                ).returncode:
                    assert process.poll() is None, "etcd ended"
                    time.sleep(0.1)
                yield
            finally:
                process.terminate()

    @property
    def etcdctl(self) -> list[str]:
        return ["etcdctl", "--endpoints", f"http://127.0.0.1:{self.client}"]

    def ask(self, *arguments: str) -> str:
        """Run etcdctl and return its output."""
        done = run_program([*self.etcdctl, *arguments], env=self.environment, timeout=30)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, call: str, **settings: str) -> tuple[int, str]:
        """Call a function of the library; return status and output."""
        given = {
            "GC_PHASE": "prepare", "GC_NODE": NODE, "GC_ETCD_TRIES": "1", **settings,
        }  # fmt: skip
        names = ("base", "effects", "joined", "etcd")
        script = "\n".join(
            [
                *(f"{name}={value}" for name, value in given.items()),
                *((FOLDER / f"library/{name}.sh").read_text() for name in names),
                'mkdir -p "$scratch"',
                "open_state",
                call,
            ]
        )
        done = run_program(["sh", "-s"], env=self.environment, input=script, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def revision(self) -> int:
        """Return the revision of etcd's data."""
        return int(re.findall(r'"revision":(\d+)', self.ask("get", "x", "-w", "json"))[0])

    def snapshots(self) -> list[Path]:
        return sorted((self.root / "var/lib/gpu-cluster/snapshots").iterdir())


@pytest.fixture
def stopped(tmp_path: Path) -> Host:
    """Return a host whose etcd doesn't run."""
    for folder in (DATA, "programs", "run", "root", "etc/kubernetes/manifests"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / f"etc/kubernetes/manifests/{name}.yaml").touch()
    kubectl = tmp_path / "programs/kubectl"
    kubectl.write_text(KUBECTL)
    kubectl.chmod(0o755)
    return Host(tmp_path, free_port(), free_port())


@pytest.fixture
def host(stopped: Host) -> Iterator[Host]:
    with stopped.etcd():
        yield stopped


def test_an_etcd_that_is_well_may_be_changed(host: Host) -> None:
    assert host.run("require_etcd") == (0, "")


def test_a_member_that_never_started_stops_a_change(host: Host) -> None:
    host.ask("member", "add", "cp-2", "--learner", "--peer-urls", "http://127.0.0.1:1")
    status, output = host.run("require_etcd")
    assert status == 1
    assert "a member that never started has no vote" in output


def test_an_alarm_about_space_stops_a_change(host: Host) -> None:
    for number in range(40):
        done = run_program(
            [*host.etcdctl, "put", f"key-{number}"],
            env=host.environment,
            input="x" * 1_000_000,
            timeout=30,
        )
        if done.returncode:
            break
    assert "NOSPACE" in host.ask("alarm", "list")
    status, output = host.run("require_etcd")
    assert status == 1
    assert "Active Alarm(s): NOSPACE" in output
    # As the text says: again, when there is no alarm.
    host.ask("del", "", "--from-key")
    revision = str(host.revision())
    host.ask("compact", revision)
    host.ask("defrag")
    host.ask("alarm", "disarm")
    assert host.run("require_etcd") == (0, "")


def test_a_snapshot_is_restored_by_the_documented_lines(stopped: Host) -> None:
    host = stopped
    with host.etcd():
        host.ask("put", "before", "yes")
        status, output = host.run("take_snapshot", GC_SNAPSHOTS="1")
        assert status == 0, output
        assert "+ kept a snapshot of etcd in /var/lib/gpu-cluster/snapshots/" in output
        host.ask("put", "after", "yes")
        revision = host.revision()
    lines = re.sub(r"(?<![\w/.])/(?=etc/|var/|root/)", f"{host.root}/", documented_restore())
    lines = lines.replace(":2380", f":{host.peer}").replace("https:", "http:")
    lines = lines.replace("192.0.2.11", "127.0.0.1")
    # Other tests' etcd may run on this machine.
    lines = lines.replace("pidof etcd kube-apiserver", "false")
    done = run_program(["sh", "-ec", lines], env=host.environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert {file.name for file in (host.root / "etc/kubernetes/manifests").iterdir()} == {
        "etcd.yaml",
        "kube-apiserver.yaml",
    }
    with host.etcd():
        assert host.ask("get", "before", "--print-value-only") == "yes\n"
        assert host.ask("get", "after") == ""
        assert host.revision() > revision, "no client takes an old state for a new one"


def test_only_the_newest_snapshots_are_kept(host: Host) -> None:
    for _ in range(3):
        assert host.run("take_snapshot", GC_SNAPSHOTS="2")[0] == 0
        time.sleep(1)
    assert len(host.snapshots()) == 2
    for file in host.snapshots():
        status = run_program(
            ["etcdutl", "snapshot", "status", str(file)], env=host.environment, timeout=30
        )
        assert status.returncode == 0, status.stderr
        assert file.stat().st_mode & 0o077 == 0
