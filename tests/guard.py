"""What a test process starts ends with it, however it ends.

Fixtures tear down only where their process lives long enough. A worker of an interrupted run has
15 s for it (execnet 2.1.2, gateway_base.py, ``WorkerGateway._terminate_execution``: 5 s, SIGINT,
10 s, ``os._exit``), too few on a busy machine; a killed one has none. So each test process starts a
guard: a process in a session of its own that reads a pipe. The kernel closes the pipe with the test
process; then the guard takes down the clusters that were named over it and ends what the test
process started and left.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]

MARK = "GPU_CLUSTER_TEST_PROCESS"
"""Environment variable that all processes below a test process inherit."""

_numbers = itertools.count(1)
_pipe: IO[bytes] | None = None


def start() -> None:
    """Starts this process's guard; a second call does nothing."""
    global _pipe
    if _pipe is not None:
        return
    os.environ[MARK] = f"{os.getpid()}-{os.urandom(4).hex()}"
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.guard"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _pipe = guard.stdin
    guard.returncode = 0  # it outlives this process on purpose: no warning of a running child


def own_name(kind: str) -> str:
    """A name for an embedded cluster or its hosts that no other process uses."""
    start()
    name = f"{kind}-{os.getpid()}-{next(_numbers)}"
    assert _pipe is not None
    _pipe.write(f"{name}\n".encode())
    _pipe.flush()
    return name


def main() -> None:
    """Waits for the end of the test process, then clears up behind it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names = [line.decode().strip() for line in sys.stdin.buffer]
    _end_marked(os.environ[MARK])
    if names:
        from commands.stack import erase

        for name in names:
            with contextlib.suppress(Exception):  # one that resists must not keep the others
                erase(name)
    _end_marked(os.environ[MARK])


def _end_marked(mark: str) -> None:
    wanted = f"\0{MARK}={mark}\0".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if int(path.parent.name) != os.getpid() and wanted in b"\0" + path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


if __name__ == "__main__":
    main()
