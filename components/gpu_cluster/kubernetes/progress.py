"""Limits of time that count only the time without progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LIMITS: ContextVar[tuple[tuple[asyncio.Timeout, float], ...]] = ContextVar("_LIMITS", default=())
"""Limits around the running code, each with its seconds."""


@contextmanager
def renewed_by_progress(limit: asyncio.Timeout, seconds: float) -> Iterator[None]:
    """Let a limit, inside which the code runs, start again with each progress of the code.

    Args:
        seconds: Seconds that the limit has each time.
    """
    token = _LIMITS.set((*_LIMITS.get(), (limit, seconds)))
    try:
        yield
    finally:
        _LIMITS.reset(token)


def made_progress() -> None:
    """Start the limits around the running code again: a part of a long answer came."""
    now = asyncio.get_running_loop().time()
    for limit, seconds in _LIMITS.get():
        if not limit.expired():
            limit.reschedule(now + seconds)
