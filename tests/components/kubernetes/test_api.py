"""The Kubernetes API client: retries, readiness, expired credentials and error messages."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from http.server import HTTPServer, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import yaml

from gpu_cluster.kubernetes import api
from gpu_cluster.kubernetes.api import RETRIES, ClusterError
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from tests.fixtures.api import client, stream
from tests.fixtures.kubeconfigs import kubeconfig


class Server:
    """Fake API server that breaks the first `ended` connections and then responds."""

    def __init__(self, ended: int, error: type[httpx.TransportError]) -> None:
        self.ended = ended
        self.error = error
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.asked <= self.ended:
            raise self.error("Server disconnected without sending a response.", request=request)
        return httpx.Response(200, content=b"{}")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PAUSE", 0.0)


def ask(server: Server, method: str) -> object:
    return asyncio.run(client(server).request(method, "nodes"))


@pytest.mark.parametrize("error", api.ENDED)
def test_a_read_whose_connection_ended_is_repeated(error: type[httpx.TransportError]) -> None:
    server = Server(RETRIES, error)
    assert ask(server, "GET") == {}
    assert server.asked == RETRIES + 1


def test_a_read_is_not_repeated_for_ever() -> None:
    server = Server(RETRIES + 1, httpx.ReadError)
    with pytest.raises(
        ClusterError,
        match=r"GET nodes: found no response .*; cure: check that the control plane runs",
    ):
        ask(server, "GET")
    assert server.asked == RETRIES + 1


def test_a_forwarded_response_is_read_up_to_a_limit_and_follows_no_redirect() -> None:
    asked = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        moved = {"location": "https://elsewhere/"}
        return httpx.Response(302 if asked[-1] == "/moved" else 200, content=b"12", headers=moved)

    def read(path: str, most: int) -> bytes:
        return asyncio.run(client(answer).read(path, most))

    assert read("/apis/x/pods/*/y", 2) == b"12"
    with pytest.raises(ClusterError, match="more than 1 bytes"):
        read("/apis/x", 1)
    with pytest.raises(api.Refused) as refused:
        read("/moved", 2)
    assert refused.value.code == 302
    with pytest.raises(ClusterError, match="an object with an invalid name"):
        read("/apis/x/../y", 2)
    assert asked == ["/apis/x/pods/*/y", "/apis/x", "/moved"]


MEBI = 1024 * 1024


def _bomb(request: httpx.Request) -> httpx.Response:
    packed = gzip.compress(b"[" * 100 * MEBI)
    parts = (packed[start : start + 4096] for start in range(0, len(packed), 4096))
    return httpx.Response(200, headers={"content-encoding": "gzip"}, content=stream(*parts))


def _twice(request: httpx.Request) -> httpx.Response:
    packed = gzip.compress(gzip.compress(b"[" * 8 * MEBI))
    headers = {"content-encoding": "gzip, gzip"}
    return httpx.Response(200, headers=headers, content=stream(packed))


def _endless(request: httpx.Request) -> httpx.Response:
    items: list[dict[str, str]] = [{}] * 20_000
    return httpx.Response(200, json={"items": items, "metadata": {"continue": "x"}})


def _endless_token(request: httpx.Request) -> httpx.Response:
    """Answer with a token that no URL can hold."""
    return httpx.Response(200, json={"items": [], "metadata": {"continue": "a" * 100_000}})


def _nested(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=b"[" * MEBI)


def _moved(request: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"location": "http://elsewhere/"})


@pytest.mark.promise("An API server's answers have limits in bytes, in objects and in time.")
@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (_bomb, "found more than 67108864 bytes"),
        (_twice, "an encoding that was not requested"),
        (_endless, "found a list of more than 200000 objects"),
        (_nested, "found a response that isn't JSON"),
        (_moved, "HTTP status 302"),
        (lambda _: httpx.Response(200, content=b"<html>"), "found a response that isn't JSON"),
        (lambda _: httpx.Response(200, json=[]), "found a response that isn't a list"),
        (lambda _: httpx.Response(200, json={"items": [1]}), "found a response that isn't a list"),
        (lambda _: httpx.Response(200, json={"items": {}, "metadata": 1}), "isn't a list"),
        (_endless_token, "isn't a list"),
    ],
)
def test_a_hostile_api_server_is_named_and_not_obeyed(
    answer: Callable[[httpx.Request], httpx.Response], found: str
) -> None:
    with pytest.raises(ClusterError, match=rf"GET (/api/v1/)?pods: .*{found}"):
        asyncio.run(client(answer).list("pods"))


class Trickle(QuietHandler):
    """API server that sends a response byte by byte, without an end."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b" ")
                time.sleep(0.01)


def test_a_response_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "LONGEST", 0.2)

    async def ask_once(address: str) -> None:
        async with httpx.AsyncClient(base_url=address, trust_env=False) as session:
            await api.Client(session, SimpleNamespace(tls_server_name=None)).list("pods")

    with (
        running(ThreadingHTTPServer(("127.0.0.1", 0), Trickle)) as address,
        pytest.raises(ClusterError, match=r"no response .*no end in 0 s"),
    ):
        asyncio.run(ask_once(address))


def test_a_page_that_is_too_large_is_read_in_smaller_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api, "LARGEST", 1000)
    pods = [{"metadata": {"name": f"p{number}"}} for number in range(40)]
    limits = []

    def answer(request: httpx.Request) -> httpx.Response:
        start, limit = int(request.url.params.get("continue", 0)), int(request.url.params["limit"])
        limits.append(limit)
        end = start + limit
        token = str(end) if end < len(pods) else ""
        body = {"items": pods[start:end], "metadata": {"continue": token}}
        return httpx.Response(200, json=body)

    assert asyncio.run(client(answer).list("pods")) == pods
    assert limits == [500, 16, 16, 16]


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.ConnectTimeout])
def test_an_api_server_that_is_not_there_is_named_at_once(
    error: type[httpx.TransportError],
) -> None:
    server = Server(1, error)
    with pytest.raises(ClusterError, match=r"GET nodes: found no response"):
        ask(server, "GET")
    assert server.asked == 1


@pytest.mark.parametrize(("code", "ready"), [(200, True), (403, False), (500, False)])
def test_an_api_server_is_ready_when_it_says_so(code: int, ready: bool) -> None:
    """Before it has read its RBAC roles, an API server responds but refuses every request."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(code if request.url.path == "/readyz" else 404)

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    assert asyncio.run(client(answer).is_ready()) is ready
    assert not asyncio.run(client(silent).is_ready())


@pytest.fixture
def log_ins(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which each login after the first adds an entry."""
    seen: list[str] = []

    async def session(credentials: object) -> httpx.AsyncClient:
        seen.append("again")
        transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"{}"))
        return httpx.AsyncClient(transport=transport, base_url="https://server")

    monkeypatch.setattr(api, "_open_session", session)
    return seen


def test_credentials_that_ended_are_read_again_while_an_api_server_is_waited_for(
    log_ins: list[str],
) -> None:
    async def asked() -> list[bool]:
        made = client(lambda _: httpx.Response(401))
        return [await made.is_ready(), await made.is_ready()]

    assert asyncio.run(asked()) == [False, True]
    assert log_ins == ["again"]


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_request_whose_credentials_ended_is_repeated_with_new_ones(
    log_ins: list[str], method: str
) -> None:
    assert asyncio.run(client(lambda _: httpx.Response(401)).request(method, "nodes")) == {}
    assert log_ins == ["again"]


def test_a_refusal_is_no_reason_to_log_in_again(log_ins: list[str]) -> None:
    with pytest.raises(ClusterError):
        asyncio.run(client(lambda _: httpx.Response(403)).request("GET", "nodes"))
    assert log_ins == []


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_write_that_may_have_been_carried_out_is_not_repeated(method: str) -> None:
    server = Server(1, httpx.RemoteProtocolError)
    with pytest.raises(ClusterError, match=f"{method} nodes: found no response"):
        ask(server, method)
    assert server.asked == 1


def test_the_servers_version_is_printed_without_its_control_characters() -> None:
    answer = httpx.Response(200, json={"gitVersion": "v1.35.2\x1b[31m" + "x" * 1000})
    version = asyncio.run(client(lambda _: answer).server_version())
    assert version.startswith("v1.35.2")
    assert version.isprintable()
    assert version.count("x") <= api.LONGEST_VERSION


@pytest.mark.parametrize("answer", [[], {}, {"gitVersion": None}, {"gitVersion": 1}, "v1.35.2"])
def test_an_answer_without_a_version_is_no_version(answer: object) -> None:
    with pytest.raises(ClusterError, match="found a response that isn't a version"):
        asyncio.run(client(lambda _: httpx.Response(200, json=answer)).server_version())


class NewServer(QuietHandler):
    """API server of a Kubernetes version that the library kr8s doesn't know."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"gitVersion": "v1.99.0"}).encode())


def test_a_kubernetes_that_came_after_the_client_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kr8s warns about Kubernetes versions that it doesn't know; a warning fails this test."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))

    async def connected() -> None:
        async with api.connect("new"):
            pass

    with running(HTTPServer(("127.0.0.1", 0), NewServer)) as address:
        (tmp_path / "config").write_text(kubeconfig(address, context="new"))
        asyncio.run(connected())


@pytest.fixture
def files_of_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which a login has its temporary files."""
    (files := tmp_path / "files").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(files))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    return files


async def cancelled(is_time: Callable[[], bool]) -> None:
    """Cancel a login when it is time, and wait for its end."""
    login = asyncio.ensure_future(api.connect("with-keys").__aenter__())
    while not is_time():
        await asyncio.sleep(0.0005)
    login.cancel()
    await asyncio.wait({login})
    assert login.cancelled() or login.exception() is not None


def write_user(config: Path, user: dict[str, object]) -> None:
    """Write a kubeconfig whose user has these credentials."""
    content = yaml.safe_load(kubeconfig(context="with-keys"))
    content["users"][0]["user"] = user
    config.write_text(yaml.safe_dump(content))


def test_a_login_that_is_cancelled_leaves_no_key_in_a_file(files_of_keys: Path) -> None:
    """The login is cancelled after 0 to 19 steps; 3 of them left the file being written."""
    keys = ("client-key-data", "client-certificate-data")
    write_user(files_of_keys.parent / "config", dict.fromkeys(keys, "LS0tLS1CRUdJTg=="))
    for steps in range(20):
        taken = iter([False] * steps)
        asyncio.run(cancelled(partial(next, taken, True)))
        assert list(files_of_keys.iterdir()) == []


def test_a_login_that_is_cancelled_ends_a_credential_plugin_that_does_not_end(
    files_of_keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "WRITING", 0.5)
    number = files_of_keys.parent / "number"
    write_user(
        files_of_keys.parent / "config",
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "sh",
                "args": ["-c", f"echo $$ >{number}.new; mv {number}.new {number}; exec sleep 60"],
            }
        },
    )
    asyncio.run(cancelled(number.exists))
    assert not Path("/proc", number.read_text().strip()).exists()
    assert list(files_of_keys.iterdir()) == []
    gc.collect()  # A process that was left alone is reported here.
