"""Run many requests in parallel, up to a limit, and raise all their errors together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from gpu_cluster.kubernetes.api import ClusterError

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY = 32
"""Maximum number of parallel requests.

The API server's own limit is much higher (max-requests-inflight 400).
"""


async def gather(work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Run `work` on all items in parallel, at most `CONCURRENCY` at a time, and return the results.

    Raises:
        ClusterError: Items failed; the error contains the faults of all of them.
    """
    limit = asyncio.Semaphore(CONCURRENCY)

    async def bounded(item: T) -> R:
        async with limit:
            return await work(item)

    results = await asyncio.gather(*(bounded(item) for item in items), return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    unexpected = [failure for failure in failures if not isinstance(failure, ClusterError)]
    if unexpected:
        raise unexpected[0]
    faults = {fault for failure in failures for fault in getattr(failure, "faults", ())}
    if faults:
        raise ClusterError(*sorted(faults, key=str))
    return [result for result in results if not isinstance(result, BaseException)]
