"""Locks: one run at a time on an embedded stack, and the engine's lock that a dead run left.

The engine's lock names pid, user, hostname and time (pulumi v3.250.0, pkg/backend/diy/lock.go).
Two containers may share a hostname and a backend, and have pids of their own each: so each run
first notes beside the state where its pids count, and only there a lock is judged by them.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from commands.waiting import for_step
from policies.printable import printable

_FIRST_PIDS = "pid:[4026531836]"
"""The machine's own namespace of pids (include/linux/proc_ns.h, PROC_PID_INIT_INO)."""
CLOCK = 2.0
"""Seconds by which a process may seem younger than its lock: clock ticks and time adjustments."""


@contextmanager
def one_run(path: Path, command: str) -> Iterator[None]:
    """Hold a stack's lock while a command runs; wait for the command that holds it.

    The kernel drops the lock with the process that holds it, however it ends.

    Args:
        path: the lock's file, which stays.
        command: what runs, such as ``make up``, for those who wait.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = printable(path.read_text(encoding="utf-8", errors="replace").strip())
            text = f"the end of {holder or 'another command'} on the same stack"
            print(f"waiting for {text}", flush=True)
            with for_step(text):
                fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"`{command}` (process {os.getpid()})\n")
        file.flush()
        yield


def pids_of() -> str:
    """Where this process's pids count: the machine, or one container of one boot."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # macOS has neither
        return socket.gethostname()
    if namespace != _FIRST_PIDS:
        return f"{boot} {namespace}"
    try:
        return Path("/etc/machine-id").read_text().strip() or boot
    except OSError:
        return boot


def _locks(backend: Path, stack: str) -> list[Path]:
    return list(backend.glob(f"locks/organization/gpu-cluster/{stack}/*.json"))


def _note(backend: Path, stack: str) -> Path:
    return backend / "locks" / f"gpu-cluster-{stack}.pids"


def note_pids(backend: Path, stack: str) -> None:
    """Notes where the pids of the run that begins count; not beside another run's lock."""
    note = _note(backend, stack)
    if not _locks(backend, stack):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(pids_of())


def is_abandoned(backend: Path, stack: str) -> bool:
    """Whether there are locks, and the processes that made them are gone.

    Args:
        backend: the local backend's folder ``.pulumi``.
        stack: the stack's name.
    """
    try:
        if _note(backend, stack).read_text() != pids_of():
            return False
    except OSError:
        return False
    locks = _locks(backend, stack)
    return bool(locks) and not any(_is_held(lock) for lock in locks)


def _is_held(lock: Path) -> bool:
    try:
        content = json.loads(lock.read_text())
        pid, made = int(content["pid"]), datetime.fromisoformat(content["timestamp"]).timestamp()
    except (OSError, ValueError, KeyError, TypeError):
        return True
    if content.get("hostname") != socket.gethostname():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if _is_ended(pid):
        return False
    started = _started(pid)
    # A clock that was set since makes an engine seem younger than its lock.
    return started is None or started <= made + CLOCK or _is_engine(pid)


def _is_ended(pid: int) -> bool:
    """Check for a process that was killed and that nobody has waited for yet (proc(5), stat)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("Z", "X")


def _is_engine(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "pulumi"
    except OSError:
        return False


def _started(pid: int) -> float | None:
    """When a process started, seconds since 1970; None where the system doesn't say."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, IndexError, StopIteration, ValueError):
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
