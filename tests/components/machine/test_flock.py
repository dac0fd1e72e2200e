"""A lock is for one user, names the living process that holds it, and is waited for to a limit."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_cluster.machine.flock import LockHeld, locked

HOLD = """
import fcntl, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold a lock in a process that writes nothing into the file; yield the process's number."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


@pytest.mark.parametrize("mode", [None, 0o644, 0o666])
def test_only_its_owner_can_open_a_lock(tmp_path: Path, mode: int | None) -> None:
    path = tmp_path / "lock"
    if mode is not None:
        path.touch()
        path.chmod(mode)
    with locked(path, 1):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_lock_names_the_living_process_and_ends_by_its_limit(tmp_path: Path) -> None:
    path, told = tmp_path / "lock", list[str]()
    path.write_text("1 `gpu-cluster up`\n")  # An earlier holder, which no longer holds the lock.
    with (
        held(path) as number,
        pytest.raises(LockHeld) as caught,
        locked(path, 0.2, waiting=told.append),
    ):
        pass
    assert told == [str(caught.value)]
    assert told[0].startswith(f"process {number} (python")
    assert " of user " in told[0]
    assert "gpu-cluster up" not in told[0]


def test_a_lock_names_the_command_that_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, 1, command="`gpu-cluster up`"):
        with pytest.raises(LockHeld) as caught, locked(path, 0):
            pass
        assert str(caught.value) == f"`gpu-cluster up` (process {os.getpid()})"


def test_another_program_s_name_is_printable(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text(f"{os.getpid()} \x1b[2J\n")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(LockHeld) as caught, locked(path, 0):
            pass
    assert str(caught.value).isprintable()
