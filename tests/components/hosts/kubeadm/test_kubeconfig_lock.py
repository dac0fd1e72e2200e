"""The user's kubeconfig is changed while holding kubectl's lock; symbolic links are kept."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.hosts.kubeadm import kubeconfig
from gpu_cluster.hosts.kubeadm.access import Administrator
from gpu_cluster.hosts.kubeadm.kubeconfig import KubeconfigRequest
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.requests import write

NUMBERS = range(6)


def document(*names: str) -> dict[str, Any]:
    """Return a kubeconfig with contexts that stacks have written."""
    ours = [kubeconfig.OURS + name for name in names]
    return {
        "clusters": [{"name": our, "cluster": {}} for our in ours],
        "users": [{"name": our, "user": {}} for our in ours],
        "contexts": [
            {"name": name, "context": {"cluster": our, "user": our}}
            for name, our in zip(names, ours, strict=True)
        ],
    }


def request(name: str) -> KubeconfigRequest:
    nobody = Administrator(server="", authority="", certificate="", key="")
    return KubeconfigRequest(context=name, administrator=nobody)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document("new", "other")))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def undo(name: str) -> None:
    asyncio.run(kubeconfig.undo(request(name)))


@pytest.mark.promise("A kubeconfig that is a link stays one; the file that it names is changed.")
@pytest.mark.parametrize("relative", [False, True])
def test_a_link_is_followed(file: Path, tmp_path: Path, relative: bool) -> None:
    target = tmp_path / "elsewhere" / "real"
    target.parent.mkdir()
    file.rename(target)
    file.symlink_to("elsewhere/real" if relative else target)
    undo("new")
    assert file.is_symlink()
    assert not target.is_symlink()
    assert yaml.safe_load(target.read_text())["contexts"] == document("other")["contexts"]
    assert target.stat().st_mode & 0o777 == 0o600
    undo("other")
    assert file.is_symlink()
    assert yaml.safe_load(target.read_text())["contexts"] == []
    assert sorted(tmp_path.rglob("*")) == sorted([file, target.parent, target])


def test_who_holds_kubectl_s_lock_is_waited_for(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = file.with_name("config.lock")
    lock.touch()
    before = file.read_bytes()

    async def both() -> None:
        waiting = asyncio.create_task(kubeconfig.undo(request("new")))
        await asyncio.sleep(0.3)
        assert file.read_bytes() == before
        lock.unlink()
        await waiting

    asyncio.run(both())
    assert yaml.safe_load(file.read_text())["contexts"] == document("other")["contexts"]
    assert not lock.exists()
    lock.touch()
    monkeypatch.setattr(kubeconfig, "LOCK_SECONDS", 0.2)
    with pytest.raises(ClusterError, match="remove the file if none runs"):
        undo("other")
    assert lock.exists(), "a lock of others stays"
    assert kubeconfig.is_there("other")


def test_a_failed_change_leaves_no_lock(file: Path) -> None:
    file.write_text("{")
    with pytest.raises(ClusterError):
        undo("new")
    assert not file.with_name("config.lock").exists()


def test_of_changes_by_several_processes_none_is_lost(file: Path) -> None:
    names = [f"stack-{number}" for number in NUMBERS]
    file.write_text(yaml.safe_dump(document("kept", *names)))
    command = [sys.executable, "-m", "gpu_cluster.hosts.kubeadm.kubeconfig", "undo"]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True) for _ in names]
    for process, name in zip(running, names, strict=True):
        assert process.stdin is not None
        process.stdin.write(write(request(name)))
    for process in running:
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert yaml.safe_load(file.read_text())["contexts"] == document("kept")["contexts"]
