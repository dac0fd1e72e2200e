"""Find and stop background processes by pid file, but only processes of this project."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path

MARK = "GPU_CLUSTER_EMBEDDED"
"""Environment variable with the cluster's folder, set in all processes of an embedded cluster."""

KILL_SECONDS = 5.0


def pid_in(path: Path) -> int | None:
    """Return the number in a pid file; None if the file is missing or invalid."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_running(pid: int | None, word: str) -> bool:
    """Check that the process `pid` runs and that its command line contains `word`.

    The command line is checked because the system may have given the pid to another process.
    """
    if pid is None or not _lives(pid):
        return False
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def marked(folder: Path, variable: str = MARK) -> list[int]:
    """Return pids of other processes whose environment has a variable with this folder as value.

    This also finds processes of a killed run that wrote no pid file.
    """
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return sorted(pid for pid in pids if pid != os.getpid() and _is_marked(pid, folder, variable))


def stop_marked(
    folder: Path, keep: Container[int] = (), word: str = "", variable: str = MARK
) -> None:
    """Kill the processes that `marked` returns; wait up to `KILL_SECONDS` until they have ended.

    Args:
        folder: Value of the environment variable that marks the processes.
        keep: Pids of processes that must keep running.
        word: Only processes with this text in their command line are killed.
        variable: Name of the environment variable that marks the processes.
    """
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        left = [
            pid for pid in marked(folder, variable) if pid not in keep and is_running(pid, word)
        ]
        for pid in left:
            send(pid, signal.SIGKILL, partial(_is_marked, pid, folder, variable))
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if not left:
            return
        time.sleep(0.02)


def _is_marked(pid: int, folder: Path, variable: str = MARK) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(f"{variable}={folder}") in variables


def _lives(pid: int) -> bool:
    """Check that a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def send(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Send a signal to a process, but never to another process that got the same pid meanwhile.

    Args:
        pid: Process id of the target.
        is_meant: Check that `pid` is still the intended process. An open pidfd keeps the system
            from reusing the pid during the check.
    """
    # macOS has no pidfd_open, so the process is signalled by its pid.
    if not hasattr(os, "pidfd_open"):
        if is_meant():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return
    try:
        held = os.pidfd_open(pid)
    except (ProcessLookupError, OSError):
        return
    try:
        if is_meant():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(held, number)
    finally:
        os.close(held)


def stop(pid: int | None, word: str, limit: float = 5.0) -> None:
    """Stop a process with SIGTERM, or SIGKILL after `limit` seconds; wait until it has ended."""
    if pid is None or not is_running(pid, word):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        send(pid, number, lambda: is_running(pid, word))
        deadline = time.monotonic() + limit
        while _lives(pid) and time.monotonic() < deadline:
            time.sleep(0.02)
        if not _lives(pid):
            break
    with contextlib.suppress(ChildProcessError):
        # If the process is a child of this process, reap it, so that no zombie remains.
        os.waitpid(pid, os.WNOHANG)
