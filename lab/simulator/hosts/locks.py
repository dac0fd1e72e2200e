"""File lock between processes, released when the process that holds the lock ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lab.simulator.hosts.model import HostError


@contextlib.contextmanager
def locked(path: Path, limit: float) -> Iterator[int]:
    """Hold an exclusive `flock` on `path`.

    The kernel releases the lock when the process ends, also after a kill, so the lock is never
    stale.

    Args:
        path: Path of the lock file.
        limit: Seconds to wait for another process to release the lock.

    Yields:
        The file descriptor of the lock; a child process that inherits it holds the lock until it
            closes the descriptor.

    Raises:
        HostError: Another process held the lock for longer than `limit`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline = time.monotonic() + limit
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise HostError(
                        f"{path}: held by another run for {limit:.0f} s; wait for it or end it"
                    ) from None
                time.sleep(0.05)
        yield descriptor
    finally:
        os.close(descriptor)
