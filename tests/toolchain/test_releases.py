"""Downloads of tools: only files with the published checksum are used, and waits are short."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from gpu_cluster.machine.tool import RELEASE
from gpu_cluster_lab.simulator.http_servers import QuietHandler
from gpu_cluster_lab.toolchain.archive import extract
from gpu_cluster_lab.toolchain.machine import Platform
from gpu_cluster_lab.toolchain.maker import Maker
from gpu_cluster_lab.toolchain.pins import PINS
from gpu_cluster_lab.toolchain.progress import Steps
from gpu_cluster_lab.toolchain.releases import Asset, Downloads, ReleaseError, asset, published
from gpu_cluster_lab.toolchain.resolve import Toolchain

LINUX = Platform("linux", "amd64")
BINARY = b"#!/bin/sh\necho 'Kubernetes v1.36.3'\n"


class Files(QuietHandler):
    """HTTP handler that serves the server's `files`.

    For names in `short` and `stuck` it sends only half of the content. For a name in `stuck` it
    then pauses until the test releases the server.
    """

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, FileServer)
        body = server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = self.path in server.short or self.path in server.stuck
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if self.path in server.stuck:
            self.wfile.flush()
            server.let_go.wait(30)


class FileServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Files)
        self.files: dict[str, bytes] = {}
        self.short: set[str] = set()
        self.stuck: set[str] = set()
        self.let_go = threading.Event()

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer() as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.let_go.set()
        running.shutdown()
        thread.join(10)


@contextmanager
def silent_server() -> Iterator[str]:
    """Accept connections but never respond; yield the URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def refused_base() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    return f"http://127.0.0.1:{port}"


def apiserver(base: str) -> Asset:
    download = asset(PINS["kube-apiserver"], LINUX, {"github": base, "kubernetes": base})
    assert download is not None
    return download


def publish(server: FileServer, item: Asset, body: bytes, digest: str | None = None) -> None:
    server.files[item.url.removeprefix(server.base)] = body
    text = digest or hashlib.sha256(body).hexdigest()
    server.files[item.checksums.removeprefix(server.base)] = text.encode()


def fetch(downloads: Downloads, item: Asset, target: Path) -> None:
    sums = downloads.checksums([item])[item.checksums]
    if isinstance(sums, ReleaseError):
        raise sums
    downloads.fetch(item, sums, target)


def test_a_download_with_its_published_checksum_is_kept(server: FileServer, tmp_path: Path) -> None:
    item = apiserver(server.base)
    publish(server, item, BINARY)
    fetch(Downloads(), item, tmp_path / "tool")
    assert (tmp_path / "tool").read_bytes() == BINARY


def test_a_wrong_checksum_is_refused_and_the_file_deleted(
    server: FileServer, tmp_path: Path
) -> None:
    item = apiserver(server.base)
    publish(server, item, BINARY, digest="0" * 64)
    with pytest.raises(ReleaseError, match=r"wanted 0{64}: refused and deleted"):
        fetch(Downloads(), item, tmp_path / "tool")
    assert list(tmp_path.iterdir()) == []


def test_a_truncated_download_is_refused_and_deleted(server: FileServer, tmp_path: Path) -> None:
    item = apiserver(server.base)
    publish(server, item, BINARY)
    server.short.add(item.url.removeprefix(server.base))
    with pytest.raises(ReleaseError, match=rf"ended after {len(BINARY) // 2} of {len(BINARY)}"):
        fetch(Downloads(), item, tmp_path / "tool")
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_stands_still_ends_and_its_host_is_not_asked_again(
    server: FileServer, tmp_path: Path
) -> None:
    item = apiserver(server.base)
    publish(server, item, BINARY)
    server.stuck.add(item.url.removeprefix(server.base))
    downloads = Downloads(patience=0.3)
    with pytest.raises(ReleaseError, match=r"no answer in 0\.3 s"):
        fetch(downloads, item, tmp_path / "tool")
    server.stuck.clear()
    sums = server.files[item.checksums.removeprefix(server.base)].decode()
    with pytest.raises(ReleaseError, match=r"no answer in 0\.3 s"):
        downloads.fetch(item, sums, tmp_path / "tool")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_checksum_file_means_no_download(server: FileServer, tmp_path: Path) -> None:
    item = apiserver(server.base)
    publish(server, item, BINARY)
    del server.files[item.checksums.removeprefix(server.base)]
    with pytest.raises(ReleaseError, match=r"kube-apiserver\.sha256: Not Found"):
        fetch(Downloads(), item, tmp_path / "tool")


def test_a_refused_connection_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="refused"):
        fetch(Downloads(), apiserver(refused_base()), tmp_path / "tool")


def test_silent_hosts_are_remembered_and_three_seconds_are_the_default() -> None:
    with silent_server() as one, silent_server() as two:
        items = [apiserver(one), apiserver(two)]
        downloads = Downloads(patience=0.3)
        answers = downloads.checksums(items)
    assert {str(answer).partition(": ")[2] for answer in answers.values()} == {"no answer in 0.3 s"}
    assert len(downloads.silent) == 2
    assert Downloads().patience == 3.0


def test_hosts_are_asked_at_the_same_time() -> None:
    """Checksum files are requested in parallel.

    Each of two servers responds only when both have a request, so sequential requests would fail.
    """
    both = threading.Barrier(2, timeout=5)

    class Waiting(Files):
        def do_GET(self) -> None:
            both.wait()
            super().do_GET()

    servers = [FileServer(), FileServer()]
    items = []
    for entry in servers:
        entry.RequestHandlerClass = Waiting
        threading.Thread(target=entry.serve_forever, daemon=True).start()
        item = apiserver(entry.base)
        publish(entry, item, BINARY)
        items.append(item)
    try:
        answers = Downloads(patience=5).checksums(items)
    finally:
        for entry in servers:
            entry.shutdown()
            entry.server_close()
    assert not [answer for answer in answers.values() if isinstance(answer, ReleaseError)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a" * 64 + "\n", ("sha256", "a" * 64)),
        ("b" * 64 + "  other.tar.gz\n" + "A" * 64 + "  tool.tar.gz\n", ("sha256", "a" * 64)),
        ("a" * 128 + " *tool.tar.gz", ("sha512", "a" * 128)),
        ("a" * 64 + "  ./tool.tar.gz", ("sha256", "a" * 64)),
    ],
)
def test_published_checksums_are_read(text: str, found: tuple[str, str]) -> None:
    assert published(text, "tool.tar.gz") == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" * 40 + "  tool.tar.gz", "has 40 digits; wanted SHA-256"),
        ("a" * 64 + "  other.tar.gz", "not in the published list"),
        ("<html>sign in</html>", "not in the published list"),
        ("", "not in the published list"),
    ],
)
def test_what_is_no_checksum_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ReleaseError, match=reason):
        published(text, "tool.tar.gz")


def packed(names: dict[str, bytes], folder: Path) -> Path:
    path = folder / "archive.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, body in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return path


def language_host() -> Asset:
    download = asset(PINS["pulumi-language-python"], LINUX)
    assert download is not None
    return download


def test_the_archive_gives_the_tool_and_its_companions_and_nothing_else(tmp_path: Path) -> None:
    companions = ("pulumi-language-python-exec", "pulumi-analyzer-policy-python")
    names = {f"pulumi/{name}": name.encode() for name in ("pulumi-language-python", *companions)}
    archive = packed({**names, "pulumi/pulumi": b"", "../escape": b""}, tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    extract(archive, language_host(), out)
    assert {file.name for file in out.iterdir()} == {"pulumi-language-python", *companions}
    assert (out / "pulumi-language-python").read_bytes() == b"pulumi-language-python"


def test_an_archive_without_the_tool_is_refused(tmp_path: Path) -> None:
    archive = packed({"pulumi/pulumi": b""}, tmp_path)
    with pytest.raises(ReleaseError, match="holds no pulumi-analyzer-policy-python, pulumi-lang"):
        extract(archive, language_host(), tmp_path)


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "archive.tar.gz"
    archive.write_bytes(b"no archive")
    with pytest.raises(ReleaseError, match="cannot be unpacked"):
        extract(archive, language_host(), tmp_path)


def test_addresses_are_the_ones_that_the_projects_publish_under() -> None:
    urls = {
        name: download.url
        for name, pin in PINS.items()
        if (download := asset(pin, Platform("linux", "arm64"))) is not None
    }
    github = "https://github.com"
    assert urls["pulumi"] == (
        f"{github}/pulumi/pulumi/releases/download/v3.274.1/pulumi-v3.274.1-linux-arm64.tar.gz"
    )
    assert urls["pulumi-resource-command"] == (
        f"{github}/pulumi/pulumi-command/releases/download/v1.2.1/"
        "pulumi-resource-command-v1.2.1-linux-arm64.tar.gz"
    )
    assert urls["kube-scheduler"] == (
        "https://dl.k8s.io/release/v1.36.3/bin/linux/arm64/kube-scheduler"
    )
    assert not {"kwok", "kwokctl", "nvidia-ctk"} & urls.keys()
    assert asset(PINS["etcd"], Platform("darwin", "arm64")) is None
    darwin = asset(PINS["pulumi"], Platform("darwin", "amd64"))
    assert darwin is not None
    assert darwin.file_name == "pulumi-v3.274.1-darwin-x64.tar.gz"


def test_a_release_is_fetched_checked_and_kept_with_its_companions(
    server: FileServer, tmp_path: Path
) -> None:
    """One archive contains both Pulumi and its language host; each gets its own cache entry."""
    script = b"#!/bin/sh\necho v3.274.1\n"
    names = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")
    members = {f"pulumi/{name}": script for name in (*names, "pulumi-analyzer-policy-python")}
    bases = {"github": server.base, "kubernetes": server.base}
    item = asset(PINS["pulumi"], LINUX, bases)
    assert item is not None
    body = packed(members, tmp_path).read_bytes()
    publish(server, item, body, f"{hashlib.sha256(body).hexdigest()}  {item.file_name}\n")
    steps = Steps(Console(file=io.StringIO(), force_terminal=False))

    def maker(chain: Toolchain) -> Maker:
        downloads = Downloads(pinned={item.file_name: hashlib.sha256(body).hexdigest()})
        made = replace(chain.default_maker(), bases=bases, downloads=downloads)
        return replace(made, asker=lambda pin, path: pin.version)

    chain = Toolchain(tmp_path / "cache", "", platform=LINUX, steps=steps, maker=maker)
    tools = chain.ensure("pulumi", "pulumi-language-python")
    assert {tool.origin for tool in tools.values()} == {RELEASE}
    assert {file.name for file in chain.bin.iterdir()} == {
        *names,
        "pulumi-analyzer-policy-python",
    }
    server.shutdown()
    assert chain.ensure("pulumi", "pulumi-language-python") == tools
