"""Work queue: a key is processed by one worker at a time and re-queued if added meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import aiohttp

from gpu_cluster_lab.simulator.api import ApiError

log = logging.getLogger(__name__)

#: Seconds to wait before a key whose processing failed is processed again.
RETRY = 1.0


class Queue:
    """Queue of keys, processed in the order in which they were added."""

    def __init__(self, work: Callable[[str], Awaitable[None]]) -> None:
        """Store the function that processes one key."""
        self._work = work
        self._asked: dict[str, None] = {}
        self._busy: set[str] = set()
        self._ready: asyncio.Queue[str] = asyncio.Queue()

    def add(self, key: str) -> None:
        """Add a key to the queue, unless it already waits there."""
        if key not in self._asked:
            self._asked[key] = None
            if key not in self._busy:
                self._ready.put_nowait(key)

    async def run(self, workers: int) -> None:
        """Process the keys in the queue until cancelled, `workers` keys in parallel."""
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = await self._ready.get()
            self._asked.pop(key, None)
            self._busy.add(key)
            try:
                await self._work(key)
            except ApiError as error:
                if error.code not in (404, 409):
                    log.warning("%s: %s", key, error)
                if error.code != 404:
                    loop.call_later(RETRY, self.add, key)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                log.warning("%s: %s", key, error or type(error).__name__)
                loop.call_later(RETRY, self.add, key)
            finally:
                self._busy.discard(key)
                if key in self._asked:
                    self._ready.put_nowait(key)
