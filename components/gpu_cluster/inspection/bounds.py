"""Helpers to run the inspection's asynchronous work inside the program, with time limits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from gpu_cluster.kubernetes.progress import renewed_by_progress
from gpu_rules.printable import printable

T = TypeVar("T")

LIMIT = 60
"""Seconds without progress of each part of the inspection, which then counts as not inspected."""


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new thread with its own event loop, and return its result.

    The coroutine sees the caller's context variables. A thread is needed because the SDK runs the
    program inside its own event loop, which can't be entered again. The result is returned before
    the thread has ended, so a thread that waits for a slow name server delays nothing.

    Raises:
        Exception: The coroutine raised it.
    """
    result: Future[T] = Future()

    async def run() -> None:
        try:
            result.set_result(await work)
        except BaseException as error:
            result.set_exception(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(asyncio.run, run()), daemon=True).start()
    return result.result()


async def bounded(subject: str, work: Awaitable[T], nothing: T, longer: float = 0) -> tuple[T, str]:
    """Return the result of `work` and an empty text, or `nothing` and the error; never raise.

    Args:
        subject: Name of the inspected part, such as the cluster, for the error text.
        work: Awaitable that returns the result.
        nothing: Fallback if the work fails or makes no progress for `LIMIT` and `longer`.
        longer: Seconds in addition to `LIMIT`.
    """
    seconds = LIMIT + longer
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            with renewed_by_progress(limit, seconds):
                return await work, ""
    except Exception as error:
        if limit.expired():
            return nothing, f"the inspection of the {subject} took longer than {seconds:.0f} s"
        reason = printable(traceback.format_exception_only(error)[-1].strip())
        return nothing, f"the inspection of the {subject} failed: {reason}"
