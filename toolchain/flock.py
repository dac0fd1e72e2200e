"""File lock between processes, which the kernel releases when the process that holds it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path

_POLL = 0.05
"""Seconds between two attempts."""


class LockHeld(Exception):
    """Error: another process did not release the lock in time.

    The message is the line that the other process wrote into the lock file.
    """


@contextmanager
def locked(
    path: Path,
    limit: float = inf,
    *,
    holder: str = "",
    waiting: Callable[[str], None] = lambda holder: None,
) -> Iterator[int]:
    """Hold an exclusive `flock` on a file, which is never deleted.

    Args:
        path: Path of the lock file.
        limit: Seconds to wait for another process to release the lock.
        holder: Line to write into the lock file, by which other processes learn who holds the lock.
        waiting: Called once, with what the other process wrote, if the lock is not free.

    Yields:
        The file descriptor of the lock; a child process that inherits it holds the lock until it
            closes the descriptor.

    Raises:
        LockHeld: Another process held the lock for longer than `limit`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        deadline, told = time.monotonic() + limit, False
        while not _taken(descriptor):
            other = path.read_text(encoding="utf-8", errors="replace").strip()
            if not told:
                waiting(other)
                told = True
            if time.monotonic() > deadline:
                raise LockHeld(other)
            time.sleep(_POLL)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{holder}\n".encode() if holder else b"", 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
