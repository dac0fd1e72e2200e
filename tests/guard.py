"""Cleanup process that ends everything a test process started, however the test process ends.

Fixtures only tear down if their process lives long enough. When a run is interrupted, a worker has
15 s for it (execnet 2.1.2, gateway_base.py, ``WorkerGateway._terminate_execution``: 5 s, SIGINT, 10
s, ``os._exit``), which is too short on a busy machine; a killed worker has no time at all. So each
test process starts a guard: a process in a separate session that reads from a pipe. The kernel
closes the pipe when the test process ends. Then the guard deletes the embedded clusters whose names
were sent through the pipe, and kills the processes that the test process left.
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
"""Environment variable that all child processes of a test process inherit."""

_numbers = itertools.count(1)
_pipe: IO[bytes] | None = None


def start() -> None:
    """Start the guard of this test process; do nothing if the guard already runs."""
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
    # The guard intentionally outlives this process. Setting a return code prevents Python's warning
    # about a child process that still runs.
    guard.returncode = 0


def own_name(kind: str) -> str:
    """Return a name that no other process uses for an embedded cluster or its hosts."""
    start()
    name = f"{kind}-{os.getpid()}-{next(_numbers)}"
    assert _pipe is not None
    _pipe.write(f"{name}\n".encode())
    _pipe.flush()
    return name


def main() -> None:
    """Wait until the test process ends, then delete its clusters and kill its processes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names = [line.decode().strip() for line in sys.stdin.buffer]
    _end_marked(os.environ[MARK])
    if names:
        from gpu_cluster.commands.embedded_cluster import erase

        for name in names:
            # If a cluster can't be deleted, the other clusters must be deleted nevertheless.
            with contextlib.suppress(Exception):
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
