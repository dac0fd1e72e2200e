"""File lock that protects the files of simulated hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gpu_cluster.machine import flock
from gpu_cluster_lab.simulator.hosts.model import HostError


@contextlib.contextmanager
def locked(path: Path, limit: float) -> Iterator[int]:
    """Lock a file while the context lasts, as `gpu_cluster.machine.flock.locked` does.

    Raises:
        HostError: Another process held the lock for longer than `limit`.
    """
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(flock.locked(path, limit))
        except flock.LockHeld as error:
            raise HostError(
                f"{path}: {error} has held the lock for {limit:.0f} s; wait for it or end it"
            ) from None
        yield descriptor
