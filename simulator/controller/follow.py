"""Follows a collection of the API server: lists, watches, lists again after a gap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import aiohttp

from simulator.api import Api, ApiError, Json

log = logging.getLogger(__name__)

#: Seconds before the next try after the API server could not be reached.
RETRY = 0.5

Seen = Callable[[Json], None]


async def follow(
    api: Api,
    path: str,
    changed: Seen,
    gone: Seen,
    listed_once: Callable[[], None] = lambda: None,
    **params: str,
) -> None:
    """Call ``changed`` for each object that is or becomes, ``gone`` for each that went.

    Runs until cancelled; ``listed_once`` is called after each list. A collection that is not served (a CRD that is not there yet) is empty.
    """
    known: dict[str, Json] = {}
    while True:
        try:
            listed, version = await api.list(path, **params)
            fresh = {item["metadata"]["uid"]: item for item in listed}
            for uid in known.keys() - fresh.keys():
                gone(known.pop(uid))
            for uid, item in fresh.items():
                known[uid] = item
                changed(item)
            listed_once()
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
            elif error.code != 410:
                log.warning("%s: %s", path, error)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("%s: %s", path, error or type(error).__name__)
        await asyncio.sleep(RETRY)
