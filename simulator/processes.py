"""Background processes by pid file: found, and ended, only where they are ours."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path


def pid_in(path: Path) -> int | None:
    """The number in a pid file; ``None`` where there is none."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def is_running(pid: int | None, word: str) -> bool:
    """Whether ``pid`` lives and its command line holds ``word``: a pid may be another's by now."""
    if pid is None:
        return False
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z" and word.encode() in line


def stop(pid: int | None, word: str, limit: float = 5.0) -> None:
    """End a process by SIGTERM, after ``limit`` seconds by SIGKILL, and wait until it is gone."""
    for number, seconds in ((signal.SIGTERM, limit), (signal.SIGKILL, limit)):
        if pid is None or not is_running(pid, word):
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while is_running(pid, word) and time.monotonic() < deadline:
            _reap(pid)
            time.sleep(0.02)


def _reap(pid: int) -> None:
    """Take the exit status of a child of ours, or it stays as a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
