"""Follow the objects of an API path: list, watch, and list again after the watch has a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from gpu_cluster_lab.simulator.api import Api, ApiError, Json

log = logging.getLogger(__name__)

#: Seconds to wait before the next attempt if the API server can't be reached.
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
    """Call `changed` for each existing or changed object, and `gone` for each deleted object.

    Run until cancelled. Call `listed` after each list request. If the API server doesn't know the
    resource, for example because its CRD is missing, there are no objects.
    """
    by_uid: dict[str, Json] = {}
    while True:
        try:
            items, version = await api.list(path, **params)
            fresh = {item["metadata"]["uid"]: item for item in items}
            for uid in by_uid.keys() - fresh.keys():
                gone(by_uid.pop(uid))
            for uid, item in fresh.items():
                by_uid[uid] = item
                changed(item)
            listed()
            while True:
                async for event in api.watch(path, version, **params):
                    item = event["object"]
                    version = item["metadata"]["resourceVersion"]
                    if event["type"] == "DELETED":
                        by_uid.pop(item["metadata"]["uid"], None)
                        gone(item)
                    elif event["type"] != "BOOKMARK":
                        by_uid[item["metadata"]["uid"]] = item
                        changed(item)
        except ApiError as error:
            if error.code == 404:
                for uid in list(by_uid):
                    gone(by_uid.pop(uid))
                listed()
            elif error.code != 410:
                log.warning("%s: %s", path, error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("%s: %s", path, error or type(error).__name__)
        await asyncio.sleep(RETRY)


class Sources:
    """Wait until all watched collections have been listed once.

    Before that, the controller must not decide anything, because it doesn't know all objects.
    """

    def __init__(self, count: int) -> None:
        """Set the number of collections that must be listed."""
        self._missing = set(range(count))
        self._given = 0
        self.complete = asyncio.Event()

    def source(self) -> Callable[[], None]:
        """Return a function that records that one collection was listed; `follow` calls it."""
        number = self._given
        self._given += 1

        def listed() -> None:
            self._missing.discard(number)
            if not self._missing:
                self.complete.set()

        return listed
