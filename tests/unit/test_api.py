"""The API client: what it repeats, and what it says when nothing answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from components import api
from components.api import RETRIES, Client, ClusterError


class Server:
    """Ends so many connections without an answer, then answers."""

    def __init__(self, ended: int, error: type[httpx.TransportError]) -> None:
        self.ended = ended
        self.error = error
        self.asked = 0

    @contextlib.asynccontextmanager
    async def call_api(self, *_: Any, **__: Any) -> AsyncIterator[httpx.Response]:
        self.asked += 1
        if self.asked <= self.ended:
            raise self.error("Server disconnected without sending a response.")
        yield httpx.Response(200, content=b"{}")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PAUSE", 0.0)


def ask(server: Server, method: str) -> Any:
    return asyncio.run(Client(server).request(method, "nodes"))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", api.ENDED)
def test_a_read_whose_connection_ended_is_repeated(error: type[httpx.TransportError]) -> None:
    server = Server(RETRIES, error)
    assert ask(server, "GET") == {}
    assert server.asked == RETRIES + 1


def test_a_read_is_not_repeated_for_ever() -> None:
    server = Server(RETRIES + 1, httpx.ReadError)
    with pytest.raises(ClusterError, match=r"GET nodes: found no answer .*; cure: see how"):
        ask(server, "GET")
    assert server.asked == RETRIES + 1


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_that_may_have_been_carried_out_is_not_repeated(method: str) -> None:
    server = Server(1, httpx.RemoteProtocolError)
    with pytest.raises(ClusterError, match=f"{method} nodes: found no answer"):
        ask(server, method)
    assert server.asked == 1
