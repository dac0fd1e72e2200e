"""Follows a collection of the API server: lists, watches, lists again after a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from lab.simulator.api import Api, ApiError, Json

log = logging.getLogger(__name__)

#: Seconds before the next try after the API server could not be reached.
RETRY = 0.5

Seen = Callable[[Json], None]


async def follow(
    api: Api,
    path: str,
    changed: Seen,
    gone: Seen,
    listed: Callable[[], None],
    **params: str,
) -> None:
    """Call ``changed`` for each object that is or becomes, ``gone`` for each that went.

    Runs until cancelled; ``listed`` is called after each list. A collection that is not served (a
    CRD that is not there yet) is empty.
    """
    known: dict[str, Json] = {}
    while True:
        try:
            items, version = await api.list(path, **params)
            fresh = {item["metadata"]["uid"]: item for item in items}
            for uid in known.keys() - fresh.keys():
                gone(known.pop(uid))
            for uid, item in fresh.items():
                known[uid] = item
                changed(item)
            listed()
            while True:
                async for event in api.watch(path, version, **params):
                    item = event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        known.pop(item["metadata"]["uid"], None)
                        gone(item)
                    elif event["type"] != "BOOKMARK":
                        known[item["metadata"]["uid"]] = item
                        changed(item)
        except ApiError as error:
            if error.code == 404:
                for uid in list(known):
                    gone(known.pop(uid))
                listed()
            elif error.code != 410:
                log.warning("%s: %s", path, error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("%s: %s", path, error or type(error).__name__)
        await asyncio.sleep(RETRY)


class Sources:
    """Knows when each of several collections has been listed: before, nothing may be decided."""

    def __init__(self, count: int) -> None:
        self._missing = set(range(count))
        self._given = 0
        self.complete = asyncio.Event()

    def source(self) -> Callable[[], None]:
        """What one more collection calls when it is listed."""
        number = self._given
        self._given += 1

        def listed() -> None:
            self._missing.discard(number)
            if not self._missing:
                self.complete.set()

        return listed
