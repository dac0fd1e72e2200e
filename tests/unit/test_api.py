"""The API client: what it repeats, and what it says when nothing answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import httpx
import kr8s
import pytest
import yaml

from components import api
from components.api import RETRIES, Client, ClusterError


class Server:
    """Ends so many connections without an answer, then answers."""

    def __init__(self, ended: int, error: type[Exception]) -> None:
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


@pytest.mark.parametrize("error", [httpx.ConnectError, kr8s.APITimeoutError])
def test_an_api_server_that_is_not_there_is_named_at_once(error: type[Exception]) -> None:
    server = Server(1, error)
    with pytest.raises(ClusterError, match=r"GET nodes: found no answer"):
        ask(server, "GET")
    assert server.asked == 1


@pytest.mark.parametrize(("code", "ready"), [(200, True), (403, False), (500, False)])
def test_an_api_server_is_ready_when_it_says_so(code: int, ready: bool) -> None:
    """Not when it answers: until it has read its roles, it refuses everybody."""

    async def seen(answer: Callable[[httpx.Request], httpx.Response]) -> bool:
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, base_url="https://server") as session:
            server = SimpleNamespace(auth=SimpleNamespace(tls_server_name=None), _session=session)
            return await Client(server).is_ready()  # type: ignore[arg-type]

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(code if request.url.path == "/readyz" else 404)

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    assert asyncio.run(seen(answer)) is ready
    assert not asyncio.run(seen(silent))


def test_credentials_that_ended_are_read_again_while_an_api_server_is_waited_for() -> None:
    codes = iter([401, 200])

    async def asked() -> list[bool]:
        transport = httpx.MockTransport(lambda _: httpx.Response(next(codes)))
        async with httpx.AsyncClient(transport=transport, base_url="https://server") as session:
            auth = SimpleNamespace(tls_server_name=None, reauthenticate=AsyncMock())
            server = SimpleNamespace(auth=auth, _session=session, _create_session=AsyncMock())
            client = Client(server)  # type: ignore[arg-type]
            seen = [await client.is_ready(), await client.is_ready()]
            auth.reauthenticate.assert_awaited_once()
            return seen

    assert asyncio.run(asked()) == [False, True]


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_that_may_have_been_carried_out_is_not_repeated(method: str) -> None:
    server = Server(1, httpx.RemoteProtocolError)
    with pytest.raises(ClusterError, match=f"{method} nodes: found no answer"):
        ask(server, method)
    assert server.asked == 1


class NewServer(BaseHTTPRequestHandler):
    """An API server of a Kubernetes that comes long after kr8s."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"gitVersion": "v1.99.0"}).encode())

    def log_message(self, *_: object) -> None:
        """Stay quiet."""


def test_a_kubernetes_that_came_after_the_client_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning is an error here, and a line of noise for a user."""
    server = HTTPServer(("127.0.0.1", 0), NewServer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "new",
        "clusters": [
            {"name": "new", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        ],
        "users": [{"name": "new", "user": {"token": "t"}}],
        "contexts": [{"name": "new", "context": {"cluster": "new", "user": "new"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    async def connected() -> None:
        async with api.connect("new"):
            pass

    try:
        asyncio.run(connected())
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
