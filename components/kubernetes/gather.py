"""Many requests side by side, in bounds, with all their faults told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from components.kubernetes.api import ClusterError

T = TypeVar("T")
R = TypeVar("R")

CONCURRENCY = 32
"""Requests in flight; the API server's own limits (max-requests-inflight 400) are far above."""


async def gather(work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Runs ``work`` on all items, at most `CONCURRENCY` at a time; raises one error for all.

    Raises:
        ClusterError: the faults of all items that failed.
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
