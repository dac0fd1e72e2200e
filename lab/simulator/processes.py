"""Background processes by pid file: found, and ended, only where they are ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Container
from functools import partial
from pathlib import Path

MARK = "GPU_CLUSTER_EMBEDDED"
"""Environment variable with the folder of an embedded cluster, of all of its processes."""

KILL_SECONDS = 5.0


def pid_in(path: Path) -> int | None:
    """The number in a pid file; ``None`` where there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_running(pid: int | None, word: str) -> bool:
    """Whether ``pid`` lives and its command line holds ``word``: a pid may be another's by now."""
    if pid is None or not _lives(pid):
        return False
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def marked(folder: Path, variable: str = MARK) -> list[int]:
    """Return the other processes that began with a variable that has this folder.

    They are found whether or not a killed run came to write their ids down.
    """
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return sorted(pid for pid in pids if pid != os.getpid() and _is_marked(pid, folder, variable))


def stop_marked(
    folder: Path, keep: Container[int] = (), word: str = "", variable: str = MARK
) -> None:
    """End the processes that `marked` returns by SIGKILL, and wait some seconds for their end.

    Args:
        folder: the mark's.
        keep: processes that go on.
        word: a part of the command line of those that are meant.
        variable: the mark's name.
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
    """Whether there is such a process and it isn't a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def send(pid: int, number: signal.Signals, is_meant: Callable[[], bool]) -> None:
    """Signals a process that is still the one that is meant, never one that got its pid since.

    Args:
        pid: the process.
        number: the signal.
        is_meant: looks at ``pid``, which stays this process's while it is held here (pidfd).
    """
    if not hasattr(os, "pidfd_open"):  # macOS
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
    """End a process by SIGTERM, after ``limit`` seconds by SIGKILL, and wait until it is gone."""
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
        os.waitpid(pid, os.WNOHANG)  # a child of ours would stay as a zombie
