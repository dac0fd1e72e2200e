"""Locks: one command at a time on an embedded stack, and detection of a killed run's engine lock.

The engine's lock file contains pid, user, hostname and time (pulumi v3.250.0,
pkg/backend/diy/lock.go). Two containers may share a hostname and a backend but have separate pid
namespaces, so the pid alone doesn't identify a process. Each run therefore records its pid
namespace next to the state, and a lock is only judged by its pid within the same namespace.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from gpu_cluster.commands.waiting import for_step
from gpu_cluster.machine.flock import LockHeld, locked
from gpu_cluster.machine.folders import make_private
from gpu_rules.faults import Fault
from gpu_rules.printable import printable

_FIRST_PIDS = "pid:[4026531836]"
"""The initial pid namespace of a machine (include/linux/proc_ns.h, PROC_PID_INIT_INO)."""
CLOCK = 2.0
"""Tolerance in seconds when a process's start is compared with its lock's time.

Clock ticks and time adjustments can make a process seem younger than its lock.
"""


LIMIT = 7200.0
"""Seconds to wait for another command on the same stack."""


@contextmanager
def one_run(path: Path, command: str) -> Iterator[None]:
    """Hold an embedded stack's lock while a command runs; wait first if another command holds it.

    The kernel releases the lock when the process that holds it ends, in whatever way.

    Args:
        path: The lock file. It is never deleted.
        command: The running command, such as ``gpu-cluster up``; commands that wait print it.

    Raises:
        SystemExit: Another command held the lock for longer than `LIMIT`.
    """
    with ExitStack() as waits:

        def tell(holder: str) -> None:
            text = f"the end of {holder} on the same stack"
            print(f"waiting for {text}", flush=True)
            waits.enter_context(for_step(text))

        make_private(path.parent)
        lock = ExitStack()
        try:
            lock.enter_context(locked(path, LIMIT, command=f"`{command}`", waiting=tell))
        except LockHeld as error:
            found = f"{error} on the same stack, for {LIMIT:.0f} s"
            cure = "wait for this process or end it, then run again"
            sys.exit(str(Fault(str(path), found, "that command to end", cure)))
        finally:
            waits.close()
        with lock:
            yield


def pids_of() -> str:
    """Return an identifier of this process's pid namespace.

    On the machine itself it is the machine id; in a container, the boot id with the namespace.
    """
    try:
        namespace = os.readlink("/proc/self/ns/pid")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:  # macOS has neither of the two files in /proc.
        return socket.gethostname()
    if namespace != _FIRST_PIDS:
        return f"{boot} {namespace}"
    try:
        return Path("/etc/machine-id").read_text().strip() or boot
    except OSError:
        return boot


def locks_of(backend: Path, stack: str) -> list[Path]:
    """Return the engine's lock files of a stack, also unfinished files.

    The engine takes each file in the folder for a lock, except files with attributes (pulumi
    v3.274.1, pkg/backend/diy/lock.go, checkForLock; gocloud.dev v0.46.0, blob/fileblob).
    """
    folder = backend / "locks" / "organization" / "gpu-cluster" / stack
    return sorted(path for path in folder.glob("*") if path.suffix != ".attrs" and path.is_file())


def _pids_file(backend: Path, stack: str) -> Path:
    return backend / "locks" / f"gpu-cluster-{stack}.pids"


def note_pids(backend: Path, stack: str) -> None:
    """Record the pid namespace of the run that starts, unless the engine's lock is held."""
    note = _pids_file(backend, stack)
    if not locks_of(backend, stack):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(pids_of())


def is_abandoned(backend: Path, stack: str) -> bool:
    """Check that the engine's lock files exist and that the processes that wrote them have ended.

    Args:
        backend: The local backend's folder ``.pulumi``.
        stack: The stack's name.
    """
    try:
        if _pids_file(backend, stack).read_text() != pids_of():
            return False
    except OSError:
        return False
    locks = locks_of(backend, stack)
    return bool(locks) and not any(_is_held(lock) for lock in locks)


def holders(backend: Path, stack: str) -> list[str]:
    """Return the holders of the engine's locks of a stack: user, machine, process and time."""
    return [_holder_text(lock) for lock in locks_of(backend, stack) if _is_held(lock)]


def _holder_text(lock: Path) -> str:
    try:
        content = json.loads(lock.read_text())
        user, host, pid = content["username"], content["hostname"], content["pid"]
        return printable(f"{user}@{host} (process {pid}) since {content['timestamp']}", 300)
    except (OSError, ValueError, KeyError, TypeError):
        return f"somebody, by the file {printable(str(lock))}"


def _is_held(lock: Path) -> bool:
    try:
        content = json.loads(lock.read_text())
        pid, created = int(content["pid"]), datetime.fromisoformat(content["timestamp"]).timestamp()
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
    started = _start_time(pid)
    # If the system clock was set in the meantime, a running engine can seem younger than its lock.
    return started is None or started <= created + CLOCK or _is_engine(pid)


def _is_ended(pid: int) -> bool:
    """Check whether a process has ended but was not yet reaped by its parent (proc(5), stat)."""
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


def _start_time(pid: int) -> float | None:
    """Return a process's start time in seconds since 1970; None if /proc doesn't provide it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path("/proc/stat").read_text().splitlines()
        boot = next(float(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, IndexError, StopIteration, ValueError):
        return None
    return boot + int(fields[19]) / os.sysconf("SC_CLK_TCK")
