"""What one process does on hosts in a run: it looks, then copies over the connections it has."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import asyncssh
from pydantic import TypeAdapter

from components.desired.host import Target
from components.hosts import inspect
from components.hosts.reach import Connections
from components.hosts.upload import Limits, send, upload
from config.problem import Fault

KEPT_FOR = 60.0
"""Seconds that connections are kept after a look."""
AT_ONCE = 64
"""Hosts that are dialled together to be copied to."""

Json = dict[str, Any]


class Visit:
    """Looks at hosts, and copies."""

    def __init__(self) -> None:
        self._kept = Connections()
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def answer(self, question: Json) -> Json:
        """What is asked: ``look`` (`inspect.answer`) or ``copy``.

        A copy has ``host`` as declared, ``privateKey``, ``files`` by name and ``limits``; its
        answer is the ``fault`` that stopped it, or None.
        """
        if "look" in question:
            return await self._look(question["look"])
        asked = question["copy"]
        host, limits = TypeAdapter(Target).validate_python(asked["host"]), Limits(**asked["limits"])
        fault = await self._copy(host, asked["privateKey"], asked["files"], limits)
        return {"fault": None if fault is None else str(fault)}

    async def _look(self, question: Json) -> Json:
        found = await inspect.answer(question, self._kept)
        if inspect.PROBE_KEY_FILE in os.environ:
            # What a key that is tied to the probe has opened runs the probe, whatever it is given.
            await self._close()
        else:
            self._ending = asyncio.create_task(self._close(KEPT_FOR))
        return found

    async def _close(self, delay: float = 0) -> None:
        await asyncio.sleep(delay)
        kept, self._kept = self._kept, Connections()
        await kept.aclose()

    async def _copy(
        self, host: Target, private_key: str, files: dict[str, str], limits: Limits
    ) -> Fault | None:
        if (connection := self._kept.to(host)) is not None:
            try:
                return await send(connection, host, files, limits)
            except (OSError, asyncssh.Error, TimeoutError, ValueError):
                # The host may have gone meanwhile: a new connection has more time and attempts.
                connection.abort()
        return await upload(host, private_key, files, limits, self._gate)


answer = Visit().answer
