"""Attack: the API server of a stolen control plane answers commands that only read.

Each command reads by the one client that has limits (`gpu_cluster.kubernetes.api`).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
import yaml

from gpu_cluster.commands import adopt, leave, new, stack, status, support_bundle, usage, who, why
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes import api
from gpu_cluster.kubernetes.api import Client, ClusterError
from gpu_cluster.nodes import gpu_holders
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_rules.faults import FaultError
from tests.fixtures.api import client, stream
from tests.fixtures.kubeconfigs import kubeconfig

ROOT = Path(__file__).resolve().parents[3]
CONTEXT = "stolen"
SETTINGS = {
    "version": "v1",
    "kubernetes": {"context": CONTEXT},
    "platform": "device-plugin",
    "pools": [{"name": "a", "nodes": ["gpu-1"], "gpusPerNode": 8}],
}
BOMB = gzip.compress(b'{"items": ["' + b"a" * 30_000_000)


def _large(handler: BaseHTTPRequestHandler) -> None:
    handler.send_header("Content-Encoding", "gzip")
    handler.end_headers()
    handler.wfile.write(BOMB)


def _endless(handler: BaseHTTPRequestHandler) -> None:
    handler.end_headers()
    page = {"items": [{}] * 500, "metadata": {"continue": "next"}}
    handler.wfile.write(json.dumps(page).encode())


def _slow(handler: BaseHTTPRequestHandler) -> None:
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.server.pause.wait(0.05)  # type: ignore[attr-defined]


ANSWERS: dict[str, tuple[Callable[[BaseHTTPRequestHandler], None], str]] = {
    "bytes": (_large, "more than 1000000 bytes"),
    "pages": (_endless, "a list of more than 2000 objects"),
    "time": (_slow, "no end in"),
}


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Serve one answer to all requests but that of the version; yield the address."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            if self.path.startswith("/version"):
                self.end_headers()
                self.wfile.write(b'{"gitVersion": "v1.36.3"}')
                return
            with suppress(BrokenPipeError, ConnectionResetError):  # The client has given up.
                answer(self)

        do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.pause = Event()  # type: ignore[attr-defined]
    with running(server) as address:
        try:
            yield address
        finally:
            server.pause.set()  # type: ignore[attr-defined]


def _status(own: stack.Stack) -> None:
    document = status.document_of(own)
    found = [str(fault.text) for fault in document.faults] + [document.cause]
    raise ClusterError(*found) if any(found) else AssertionError("nothing was refused")


def _who(own: stack.Stack) -> None:
    desired = resolve(own.cluster, own.name)
    asyncio.run(who.observed(CONTEXT, own.name, desired.scheduling, desired.validation))


async def _none(*_: object) -> Any:
    raise AssertionError("the cluster was read")


HANDED = leave.Handed(stack="lab", managers=frozenset(), pools=frozenset())
COMMANDS: dict[str, Callable[[stack.Stack], Any]] = {
    "why": lambda own: why.run(own, "team/train", {}),
    "who": _who,
    "adopt": lambda _: asyncio.run(adopt.proposal_of(CONTEXT)),
    "new": lambda _: asyncio.run(new.observed_of(CONTEXT)),
    "leave": lambda own: asyncio.run(
        leave.require_ready(
            CONTEXT, leave.Handed(stack=own.name, managers=frozenset(), pools=frozenset())
        )
    ),
    "status": _status,
    "support-bundle": lambda _: asyncio.run(support_bundle.observed(CONTEXT, (), _none)),
}


@pytest.mark.promise("Each command reads the API server within limits of bytes, pages and time.")
@pytest.mark.parametrize("kind", ANSWERS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_stolen_api_server_is_named_by_each_command(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, found = ANSWERS[kind]
    monkeypatch.setattr(stack, "ROOT", tmp_path)
    monkeypatch.setattr(api, "LARGEST", 1_000_000)
    monkeypatch.setattr(api, "MOST_ITEMS", 2_000)
    if kind == "time":
        monkeypatch.setattr(api, "LONGEST", 1.0)
    monkeypatch.setattr(api, "PAUSE", 0.0)
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    own = stack.Stack("lab")
    own.file.write_text(yaml.safe_dump({"config": {"gpu-cluster:cluster": SETTINGS}}))
    with serving(answer) as address:
        (tmp_path / "kubeconfig").write_text(kubeconfig(address, context=CONTEXT))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        with pytest.raises(FaultError) as caught:
            COMMANDS[name](own)
    # `why` reads one pod first, and refuses a list in its place.
    assert found in str(caught.value) or (name, kind) == ("why", "pages")
    assert str(caught.value).isprintable()


def test_no_other_module_connects_to_an_api_server() -> None:
    importing = re.compile(r"^\s*(?:import|from) (?:kr8s|kubernetes|aiohttp)\b", re.MULTILINE)
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "components").rglob("*.py")
        if importing.search(file.read_text())
    }
    assert found == {"components/gpu_cluster/kubernetes/api.py"}


SPEC = {"nodeName": "a", "containers": [{"name": "a", "image": "b"}]}
NOTE = "a" * 250_000
"""Text in an annotation; an object's annotations together may have 256 KiB."""
LISTS: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "pods": gpu_holders.list_pods,
    "usage": usage.listed,
    "nodes": lambda client: gpu_holders.pods_by_node(
        client, ["a", "b", "c", "d", "e", "f", "g", "h", "i"], lambda name, _: name
    ),
}


def _large_pods(number: int) -> Callable[[httpx.Request], httpx.Response]:
    """Return an API server with pods of 250 kB each, too many for one page, and nothing else."""

    def answer(request: httpx.Request) -> httpx.Response:
        start, limit = int(request.url.params.get("continue", 0)), int(request.url.params["limit"])
        if limit == api.PAGE and request.url.path.endswith("/pods"):
            return httpx.Response(200, content=stream(b" " * (api.LARGEST + 1)))
        end = min(start + limit, number) if request.url.path.endswith("/pods") else 0
        named = {"name": "p", "namespace": "team", "annotations": {"note": NOTE}}
        items = [{"metadata": named, "spec": SPEC} for _ in range(start, end)]
        token = str(end) if end and end < number else ""
        page = {"items": items, "metadata": {"continue": token}}
        return httpx.Response(200, content=stream(json.dumps(page).encode()))

    return answer


@pytest.mark.parametrize("name", LISTS)
def test_big_pods_of_a_tenant_take_the_memory_of_one_page(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LARGEST", 8_000_000)
    peaks = []
    for number in (48, 192):
        tracemalloc.start()
        asyncio.run(LISTS[name](client(_large_pods(number))))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
