"""Tests of the tool cache.

Entries are keyed by version pins, complete or absent, and built once by parallel runs.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.machine.tool import GO_MODULE, Tool, ToolchainError
from gpu_cluster_lab.toolchain import modules
from gpu_cluster_lab.toolchain.cache import Store, digest, link
from gpu_cluster_lab.toolchain.machine import Platform
from gpu_cluster_lab.toolchain.modules import MODULES, UNLISTED
from gpu_cluster_lab.toolchain.pins import PINS
from gpu_cluster_lab.toolchain.resolve import Toolchain

LINUX = Platform("linux", "amd64")
PROCESS_LIMIT = 60


def toolchain(cache: Path) -> Toolchain:
    return Toolchain(cache=cache, search_path="", platform=LINUX)


@pytest.fixture
def go_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the folders with go.mod files, so that a test can change them."""
    copy = tmp_path / "go"
    shutil.copytree(modules.ROOT, copy)
    monkeypatch.setattr(modules, "ROOT", copy)
    return copy


def test_the_cache_is_the_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    monkeypatch.delenv("GPU_CLUSTER_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "gpu-cluster"


@pytest.mark.parametrize("file", ["go.sum", "go.mod", "etcd/main.go"])
def test_a_changed_pin_changes_the_keys_of_its_module_alone(
    go_folder: Path, tmp_path: Path, file: str
) -> None:
    before = toolchain(tmp_path)
    keys, folder = before.keys, before.bin
    with (go_folder / "cluster" / file).open("a", encoding="utf-8") as text:
        text.write("\n")
    after = toolchain(tmp_path)
    changed = {name for name in keys if keys[name] != after.keys[name]}
    assert changed == {
        pin.name for pin in PINS.values() if pin.go is not None and pin.go.module == "cluster"
    }
    assert after.bin != folder


def test_a_platform_has_keys_of_its_own(tmp_path: Path) -> None:
    other = Toolchain(cache=tmp_path, search_path="", platform=Platform("linux", "arm64"))
    assert not set(toolchain(tmp_path).keys.values()) & set(other.keys.values())


def test_parts_of_a_key_do_not_run_together() -> None:
    assert digest({"a": "bc", "d": ""}) != digest({"a": "b", "cd": ""})
    assert digest({"a": "b", "c": "d"}) == digest({"c": b"d", "a": b"b"})


def test_the_unlisted_module_is_the_one_whose_content_was_compared() -> None:
    sums = (MODULES["cluster"].folder / "go.sum").read_text(encoding="utf-8")
    lines = [line.split() for line in sums.splitlines() if line.startswith(f"{UNLISTED} ")]
    assert [line[2] for line in lines if not line[1].endswith("/go.mod")] == [
        "h1:j2bphCf7c2YhnBrhwht2f3TNRRgcMImltUlAgzxr9H4="
    ]


def staged(store: Store, text: str = "#!/bin/sh\n") -> Path:
    folder = store.stage()
    (folder / "etcd").write_text(text, encoding="utf-8")
    return folder


ETCD = Tool("etcd", "3.6.5", GO_MODULE, Path("etcd"))


def test_a_published_entry_is_read_back(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = store.entry("etcd", "3.6.5", "key")
    assert store.read(entry) is None
    tool = store.publish(staged(store), ETCD, entry)
    assert store.read(entry) == tool == Tool("etcd", "3.6.5", GO_MODULE, entry / "etcd")
    assert os.access(tool.path, os.X_OK)


def test_an_entry_that_lost_a_part_is_not_used_and_can_be_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    entry = store.entry("etcd", "3.6.5", "key")
    store.publish(staged(store), ETCD, entry)
    (entry / "etcd").write_text("#", encoding="utf-8")
    assert store.read(entry) is None
    store.publish(staged(store), ETCD, entry)
    assert store.read(entry) is not None
    (entry / "tool.json").write_text("{", encoding="utf-8")
    assert store.read(entry) is None


KILLED = """
import os, signal, sys
from pathlib import Path
from gpu_cluster_lab.toolchain import cache
from gpu_cluster.machine.tool import Tool
store = cache.Store(Path(sys.argv[1]))
entry = store.entry("etcd", "3.6.5", "key")
def kill(*_): os.kill(os.getpid(), signal.SIGKILL)
with store.lock(print):
    folder = store.stage()
    (folder / "etcd").write_text("half a bin")
    if sys.argv[2] == "built":
        kill()
    synced = cache._sync
    def sync(path):
        synced(path)
        if path.name == sys.argv[2] or path == folder and sys.argv[2] == "staged":
            kill()
    cache._sync = sync
    store.publish(folder, Tool("etcd", "3.6.5", "test", folder / "etcd"), entry)
"""


@pytest.mark.parametrize("moment", ["built", "etcd", "tool.json", "staged"])
def test_a_run_killed_in_the_middle_leaves_nothing_that_is_used(
    tmp_path: Path, moment: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), moment], timeout=PROCESS_LIMIT, check=False
    )
    assert done.returncode == -signal.SIGKILL
    store = Store(tmp_path)
    entry = store.entry("etcd", "3.6.5", "key")
    assert store.read(entry) is None
    assert list((tmp_path / "staging").iterdir())
    # The lock is free again, because the kernel releases it when its process is killed.
    with store.lock(pytest.fail):
        assert not (tmp_path / "staging").exists()
        store.publish(staged(store), ETCD, entry)
    assert store.read(entry) is not None


TWO_RUNS = """
import sys
from pathlib import Path
from gpu_cluster_lab.toolchain.resolve import Toolchain
from gpu_cluster.machine.tool import GO_MODULE, Tool
cache = Path(sys.argv[1])
class Maker:
    def __init__(self, toolchain): self.toolchain = toolchain
    def make(self, pins):
        with (cache / "builds").open("a") as log:
            log.write("build\\n")
        print("building", flush=True)
        sys.stdin.readline()
        made = {}
        for pin in pins:
            folder = self.toolchain.store.stage()
            (folder / pin.name).write_text("#!/bin/sh\\n")
            tool = Tool(pin.name, pin.version, GO_MODULE, folder)
            made[pin.name] = self.toolchain.store.publish(
                folder, tool, self.toolchain.entry(pin)
            )
        return made
print(Toolchain(cache=cache, search_path="", maker=Maker).ensure("etcd")["etcd"].path)
"""


def test_two_runs_at_once_build_once(tmp_path: Path) -> None:
    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", TWO_RUNS, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = start()
    second = None
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "building\n"
        second = start()
        assert second.stderr is not None
        told = second.stderr.readline()
        assert f"waiting for process {first.pid}" in told
        one, _ = first.communicate("go on\n", timeout=PROCESS_LIMIT)
        two, _ = second.communicate("go on\n", timeout=PROCESS_LIMIT)
    finally:
        for process in (first, second):
            if process is not None and process.poll() is None:
                process.kill()
                process.communicate()
    assert one == two
    assert Path(one.strip()).is_file()
    assert (tmp_path / "builds").read_text(encoding="utf-8") == "build\n"


def test_a_lock_that_is_never_let_go_ends_in_an_error_that_names_its_holder(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    told: list[str] = []
    wanted = rf"lock: process {os.getpid()} has held the lock for 0 s; .*cure: let it finish"
    second = store.lock(told.append, limit=0.0)
    with store.lock(told.append), pytest.raises(ToolchainError, match=wanted), second:
        pytest.fail("held twice")
    assert len(told) == 1


def test_the_folder_for_path_holds_the_same_file_and_not_a_link_to_it(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("1", encoding="utf-8")
    target = tmp_path / "bin" / "tool"
    for text in ("1", "2"):
        replacement = tmp_path / f"new{text}"
        replacement.write_text(text, encoding="utf-8")
        replacement.replace(source)
        link(source, target)
        link(source, target)
        assert target.samefile(source)
        assert not target.is_symlink()
        assert [file.name for file in target.parent.iterdir()] == ["tool"]


def test_a_warm_run_starts_no_process(tmp_path: Path) -> None:
    """With a filled cache, `ensure` starts no process.

    Python's audit events in a new interpreter show that no subprocess, exec or fork happens.
    """
    chain = Toolchain(cache=tmp_path, search_path="")
    for name in chain.names():
        pin = PINS[name]
        folder = chain.store.stage()
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        tool = Tool(name, pin.version, GO_MODULE, folder / name)
        chain.store.publish(folder, tool, chain.entry(pin))
    code = textwrap.dedent(
        """
        import sys
        started = []
        watched = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system")
        sys.addaudithook(lambda event, _: started.append(event) if event in watched else None)
        import json
        from gpu_cluster_lab import toolchain
        tools = toolchain.ensure()
        heavy = sorted({"grpc", "pulumi", "rich"} & sys.modules.keys())
        print(json.dumps([started, heavy, sorted(tools)]))
        """
    )
    environment = {**os.environ, "GPU_CLUSTER_CACHE": str(tmp_path), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PROCESS_LIMIT,
        check=True,
    )
    assert json.loads(done.stdout) == [[], [], sorted(chain.names())]
