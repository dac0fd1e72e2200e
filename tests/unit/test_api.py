"""The API client: what it repeats, and what it says when nothing answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import kr8s
import pytest

from components import api
from components.api import RETRIES, Client, ClusterError


class Server:
    """Ends so many connections without an answer, then answers."""

    def __init__(
        self, ended: int, error: type[Exception] = httpx.ReadError, code: int = 200
    ) -> None:
        self.ended = ended
        self.error = error
        self.code = code
        self.asked = 0

    @contextlib.asynccontextmanager
    async def call_api(self, *_: Any, **__: Any) -> AsyncIterator[httpx.Response]:
        self.asked += 1
        if self.asked <= self.ended:
            raise self.error("Server disconnected without sending a response.")
        yield httpx.Response(self.code, content=b"{}")


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


@pytest.mark.parametrize("error", [httpx.ConnectError, kr8s.APITimeoutError])
def test_an_api_server_that_is_not_there_is_named_at_once(error: type[Exception]) -> None:
    server = Server(1, error)
    with pytest.raises(ClusterError, match=r"GET nodes: found no answer"):
        ask(server, "GET")
    assert server.asked == 1


def test_an_api_server_is_ready_when_it_says_so() -> None:
    """Not when it answers: until it has read its roles, it refuses everybody."""

    async def seen(*errors: type[Exception], code: int = 200) -> bool:
        return await Client(Server(len(errors), *errors, code=code)).is_ready()  # type: ignore[arg-type]

    assert asyncio.run(seen())
    assert not asyncio.run(seen(code=403))
    assert not asyncio.run(seen(code=500))
    assert not asyncio.run(seen(httpx.ConnectError))


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_that_may_have_been_carried_out_is_not_repeated(method: str) -> None:
    server = Server(1, httpx.RemoteProtocolError)
    with pytest.raises(ClusterError, match=f"{method} nodes: found no answer"):
        ask(server, method)
    assert server.asked == 1
