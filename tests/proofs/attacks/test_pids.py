"""Attack: process ids that the kernel has reused, or that belong to another container."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpu_cluster.commands import lock
from gpu_cluster.machine import orphans, processes
from tests.toolchain.plugins.rig import LIMIT, alive, until

STACK = "dev"


@contextlib.contextmanager
def sleeping(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words]) as process:
        try:
            until(lambda: b"sleep" in Path(f"/proc/{process.pid}/cmdline").read_bytes(), "it runs")
            yield process
        finally:
            process.kill()


def gone() -> int:
    """Return the pid of a process that has already ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait(LIMIT)
    return process.pid


def test_a_process_that_is_another_by_now_is_not_signalled() -> None:
    with sleeping("theirs") as other:
        processes.send(other.pid, signal.SIGKILL, lambda: processes.is_running(other.pid, "ours"))
        processes.stop(other.pid, "ours", limit=0.1)
        assert alive(other.pid)
        processes.stop(other.pid, "theirs")
        assert not alive(other.pid)


def test_a_pid_is_held_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a process ends between check and signal, a new process with its pid gets no signal."""
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    with sleeping() as process:

        def ends() -> bool:
            # The process ends and is reaped here. From then on the kernel may reuse its pid.
            process.terminate()
            process.wait(LIMIT)
            return True

        monkeypatch.setattr(process, "terminate", lambda: signal.pidfd_send_signal(fd, 15))
        fd = os.pidfd_open(process.pid)
        processes.send(process.pid, signal.SIGKILL, ends)
        os.close(fd)
    # The test sees no `os.kill`: the process was signalled through a pidfd, not by its pid.
    assert killed == []


def test_an_orphan_is_asked_again_before_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda fd, _: sent.append(fd))
    answers = iter([True, False])
    monkeypatch.setattr(orphans, "_is_orphan", lambda folder, ours: next(answers, False))
    orphans.end_orphans(set())
    assert sent == []


class Backend:
    """Folder of a local Pulumi backend with one lock file in Pulumi's format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.locks = folder / "locks" / "organization" / "gpu-cluster" / STACK
        self.locks.mkdir(parents=True)

    def lock(self, pid: int, made: datetime, hostname: str = "") -> None:
        content = {
            "pid": pid,
            "username": "user",
            "hostname": hostname or socket.gethostname(),
            # Time stamp of the lock in the format that Go writes.
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%S.%f789Z"),
        }
        (self.locks / f"{pid}.json").write_text(json.dumps(content))

    @property
    def abandoned(self) -> bool:
        return lock.is_abandoned(self.folder, STACK)


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    made = Backend(tmp_path)
    lock.note_pids(tmp_path, STACK)
    return made


NOW = datetime.now(UTC)


def test_the_lock_of_a_process_that_is_gone_is_abandoned(backend: Backend) -> None:
    assert not backend.abandoned  # The backend has no lock at first.
    backend.lock(gone(), NOW)
    assert backend.abandoned


def test_a_killed_process_that_nobody_waited_for_holds_no_lock(backend: Backend) -> None:
    with subprocess.Popen(["sleep", "600"]) as killed:
        backend.lock(killed.pid, datetime.now(UTC))
        assert not backend.abandoned
        killed.kill()
        os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
        assert backend.abandoned


def test_a_living_process_holds_its_lock(backend: Backend) -> None:
    backend.lock(os.getpid(), datetime.now(UTC))
    assert not backend.abandoned


def test_a_process_younger_than_the_lock_is_another(backend: Backend) -> None:
    with sleeping() as other:
        backend.lock(other.pid, NOW - timedelta(hours=1))
        assert backend.abandoned


def test_a_clock_that_was_set_frees_no_lock_of_a_living_engine(
    backend: Backend, tmp_path: Path
) -> None:
    """A clock change must not free the lock of a running Pulumi process.

    The kernel computes a start time from the current clock. If the clock was moved forward, a
    running process seems younger than its lock.
    """
    engine = tmp_path / "pulumi"
    shutil.copy2(shutil.which("sleep") or "/bin/sleep", engine)
    with subprocess.Popen([str(engine), "60"]) as living:
        backend.lock(living.pid, NOW - timedelta(hours=1))
        assert not backend.abandoned
        living.kill()
    assert backend.abandoned


def test_a_lock_of_another_container_is_never_dropped(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In another container this pid belongs to a running Pulumi; in the test's own container no
    # process has this pid.
    backend.lock(gone(), NOW)
    monkeypatch.setattr(lock, "pids_of", lambda: "another container")
    assert not backend.abandoned
    # `note_pids` writes nothing while the lock of another run exists.
    lock.note_pids(backend.folder, STACK)
    monkeypatch.undo()
    assert backend.abandoned


def test_a_lock_without_a_note_or_of_another_machine_is_never_dropped(tmp_path: Path) -> None:
    backend = Backend(tmp_path)
    backend.lock(gone(), NOW)
    assert not backend.abandoned
    (backend.locks / f"{next(backend.locks.iterdir()).name}").unlink()
    lock.note_pids(tmp_path, STACK)
    backend.lock(gone(), NOW, hostname="elsewhere")
    assert not backend.abandoned


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}', '{"pid": 1, "timestamp": 7}'])
def test_a_lock_that_can_t_be_read_is_never_dropped(backend: Backend, text: str) -> None:
    (backend.locks / "odd.json").write_text(text)
    assert not backend.abandoned
