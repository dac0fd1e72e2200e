"""Background processes by pid file: found, and ended, only where they are ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


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
