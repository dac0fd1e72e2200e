"""A small client of the embedded API server: requests and watches on one keep-alive pool.

At 1,000 nodes the controller makes some thousand patches; aiohttp needs a third of the time per
request that the usual Kubernetes clients take, and reads a watch without parsing what is not ours.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

Json = dict[str, Any]

MERGE = "application/merge-patch+json"

#: Requests in flight; the API server's own limit for changes is 200.
CONCURRENCY = 32
#: Seconds; a busy machine deletes slowly.
REQUEST_SECONDS = 120
#: Seconds after which the server ends a watch, which is then taken up again.
WATCH_SECONDS = 280


class ApiError(RuntimeError):
    """The API server refused; ``code`` is the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Access:
    """Where the API server is and the client certificate that it accepts."""

    server: str
    ca: Path
    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """The TLS context of a client."""
        context = ssl.create_default_context(cafile=str(self.ca))
        context.load_cert_chain(str(self.certificate), str(self.key))
        return context


class Api:
    """Requests to one API server."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str = "application/json",
        **params: str,
    ) -> Any:
        """One request; the answer is parsed where it is JSON, text otherwise.

        :raises ApiError: with the server's own message.
        """
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type}
        async with self._session.request(
            method, path, data=data, headers=headers, params=params
        ) as response:
            text = await response.text()
            if response.status >= 400:
                raise ApiError(response.status, f"{method} {path}: {_message(text)}")
            if response.content_type == "application/json":
                return json.loads(text)
            return text

    async def list(self, path: str, **params: str) -> tuple[list[Json], str]:
        """All items of a list and its resource version."""
        answer = await self.request("GET", path, None, "application/json", **params)
        return answer["items"], answer["metadata"]["resourceVersion"]

    async def watch(self, path: str, version: str, **params: str) -> AsyncIterator[Json]:
        """Events since ``version``, until the server ends the watch.

        :raises ApiError: 410 where ``version`` is too old: list again.
        """
        asked = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            **params,
        }
        timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + 20)
        async with self._session.get(path, params=asked, timeout=timeout) as response:
            if response.status >= 400:
                raise ApiError(response.status, _message(await response.text()))
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiError(event["object"].get("code", 500), str(event["object"]))
                    yield event


def _message(text: str) -> str:
    try:
        return str(json.loads(text).get("message", text))
    except (ValueError, AttributeError):
        return text


@asynccontextmanager
async def connect(access: Access) -> AsyncIterator[Api]:
    """A client; a request that takes more than `REQUEST_SECONDS` fails."""
    connector = aiohttp.TCPConnector(ssl=access.context(), limit=CONCURRENCY + 16)
    timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
    async with aiohttp.ClientSession(
        access.server, connector=connector, timeout=timeout
    ) as session:
        yield Api(session)


async def gather(*tasks: Any) -> None:
    """Run coroutines, at most `CONCURRENCY` at a time; the first failure is raised."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def bounded(task: Any) -> None:
        async with limit:
            await task

    await asyncio.gather(*(bounded(task) for task in tasks))
