"""Run the inspection's asynchronous work inside the program, each part within a time limit."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from policies.printable import printable

T = TypeVar("T")

LIMIT = 60
"""Seconds for each part of the inspection; what answers later counts as not reached."""


def completed(work: Coroutine[Any, Any, T]) -> T:
    """Run work in a thread with an event loop of its own, and return its result.

    It sees the caller's context variables.

    The SDK runs the program inside its own event loop, which can't be entered again. The result is
    returned before the thread has ended: a thread that waits for a slow name server holds nothing
    up.

    Raises:
        Exception: what the work raised.
    """
    result: Future[T] = Future()

    async def run() -> None:
        try:
            result.set_result(await work)
        except BaseException as error:
            result.set_exception(error)

    here = contextvars.copy_context()
    threading.Thread(target=here.run, args=(asyncio.run, run()), daemon=True).start()
    return result.result()


async def bounded(part: str, work: Awaitable[T], nothing: T) -> tuple[T, str]:
    """Return what a part of the inspection found, and why it found nothing; never raise.

    Args:
        part: its name, in the reason.
        work: what finds it.
        nothing: what counts as found where the work fails, or takes longer than `LIMIT`.
    """
    limit = asyncio.timeout(LIMIT)
    try:
        async with limit:
            return await work, ""
    except Exception as error:
        if limit.expired():
            return nothing, f"the inspection of the {part} took longer than {LIMIT} s"
        why = printable(traceback.format_exception_only(error)[-1].strip())
        return nothing, f"the inspection of the {part} failed: {why}"
