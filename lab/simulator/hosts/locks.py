"""A lock between processes that ends with its holder."""

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
    """Hold an exclusive ``flock`` on ``path``.

    The kernel drops it when the process ends, also by a kill, so it is never stale.

    Yields its file descriptor: a child that gets it holds the lock until it closes it.

    :param limit: seconds to wait for another holder.
    :raises HostError: another process held it for longer than ``limit``.
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
