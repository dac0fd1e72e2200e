"""Attack: a manipulated tool in the toolchain's cache, and local users who read the cache."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from gpu_cluster.machine.folders import make_private
from gpu_cluster.machine.tool import RELEASE, Tool, ToolchainError
from gpu_cluster_lab.toolchain import trust
from gpu_cluster_lab.toolchain.cache import Store

GOOD, EVIL = "#!/bin/sh\necho good\n", "#!/bin/sh\necho evil\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "tools")


@pytest.fixture
def entry(store: Store) -> Path:
    """Return the cache entry of a published tool that consists of two programs."""
    entry = store.entry("tool", "1.0.0", "key")
    with store.lock(print):
        staged = store.stage()
        (staged / "tool").write_text(GOOD)
        (staged / "companion").write_text(GOOD)
        store.publish(staged, Tool("tool", "1.0.0", RELEASE, staged / "tool"), entry)
    assert store.read(entry) == Tool("tool", "1.0.0", RELEASE, entry / "tool")
    return entry


@pytest.mark.parametrize("name", ["tool", "companion"])
def test_a_planted_tool_of_the_same_size_is_refused(store: Store, entry: Path, name: str) -> None:
    before = (entry / name).stat()
    (entry / name).write_text(EVIL)  # The harmful program has the same size as the original.
    os.utime(entry / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    for _ in range(2):
        with pytest.raises(ToolchainError, match=f"found other files than were made .{name}"):
            store.read(entry)


@pytest.mark.promise("A tool of the cache without recorded sums is made again, and never run.")
@pytest.mark.parametrize("sums", [None, [], "", 0], ids=repr)
def test_a_tool_without_sums_is_not_trusted(store: Store, entry: Path, sums: object) -> None:
    record = json.loads((entry / "tool.json").read_text())
    del record["sha256"]
    (entry / "tool.json").write_text(json.dumps(record))
    (entry / "tool").write_text(EVIL)
    assert store.read(entry) is None
    (entry / "tool.json").write_text(json.dumps({**record, "sha256": sums}))
    with pytest.raises(ToolchainError) if sums in ([], "") else contextlib.nullcontext():
        assert store.read(entry) is None


def test_a_planted_file_beside_a_tool_is_refused(store: Store, entry: Path) -> None:
    (entry / "other").write_text(EVIL)
    with pytest.raises(ToolchainError, match="other"):
        store.read(entry)


@pytest.mark.parametrize("name", [".", "tool", "companion", "..", "../.."])
@pytest.mark.parametrize("mode", [0o777, 0o775])
def test_what_others_may_write_is_refused(store: Store, entry: Path, name: str, mode: int) -> None:
    (entry / name).resolve().chmod(mode)
    with pytest.raises(ToolchainError, match="writable by nobody else"):
        store.read(entry)


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: can't give a file to another user")
@pytest.mark.parametrize("name", [".", "tool", ".."])
def test_what_another_user_owns_is_refused(store: Store, entry: Path, name: str) -> None:
    os.chown((entry / name).resolve(), 65534, 65534)
    with pytest.raises(ToolchainError, match="found owner 65534"):
        store.read(entry)


def test_a_link_to_elsewhere_is_refused(store: Store, entry: Path, tmp_path: Path) -> None:
    (tmp_path / "evil").write_text(EVIL)
    (entry / "tool").unlink()
    (entry / "tool").symlink_to(tmp_path / "evil")
    with pytest.raises(ToolchainError, match="writable by nobody else"):
        store.read(entry)


@pytest.mark.parametrize(("mode", "error"), [(0o755, ""), (0o777, "writable by nobody else")])
def test_a_cache_that_is_a_link_is_judged_by_what_it_leads_to(
    store: Store, entry: Path, tmp_path: Path, mode: int, error: str
) -> None:
    (tmp_path / "linked").symlink_to(store.root)
    store.root.chmod(mode)
    linked = Store(tmp_path / "linked")
    if error:
        with pytest.raises(ToolchainError, match=error):
            linked.read(linked.entry("tool", "1.0.0", "key"))
    else:
        assert linked.read(linked.entry("tool", "1.0.0", "key")) is not None


def test_an_unchanged_tool_is_compared_once(
    store: Store, entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "digests", lambda _: pytest.fail("compared again"))
    assert store.read(entry) is not None


def test_forged_times_don_t_spare_the_comparison(store: Store, entry: Path) -> None:
    compared = store.root / "compared.json"
    stamps = json.loads(compared.read_text())
    (entry / "tool").write_text(EVIL)
    # An attacker can restore a file's size and modification time, but not its change time (ctime).
    assert json.loads(compared.read_text()) == stamps
    with pytest.raises(ToolchainError):
        store.read(entry)


@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077, 0o000])
def test_whatever_the_umask_nobody_else_may_write(tmp_path: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        store = Store(tmp_path / "tools")
        entry = store.entry("tool", "1.0.0", "key")
        with store.lock(print):
            staged = store.stage()
            (staged / "tool").write_text(GOOD)
            store.publish(staged, Tool("tool", "1.0.0", RELEASE, staged / "tool"), entry)
        assert store.read(entry) is not None
    finally:
        os.umask(previous)


def test_state_and_temporary_files_are_their_owner_s(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    for folder in (tmp_path / "state", tmp_path / "a" / "b"):
        make_private(folder)
        assert folder.stat().st_mode & 0o777 == 0o700
