"""Layers of simulated hosts that nothing has used for weeks are removed, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.machine import flock
from gpu_cluster_lab.simulator.hosts import namespaced, rootfs
from gpu_cluster_lab.simulator.hosts.model import Spec, hosts_dir

OLD = rootfs.KEPT + 60


@pytest.fixture
def roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder `roots` of an empty cache."""
    monkeypatch.setenv("GPU_CLUSTER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "roots"
    folder.mkdir(parents=True)
    return folder


def layer(roots: Path, name: str, age: float) -> Path:
    """Create a layer that was last used `age` seconds ago."""
    folder = roots / name
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/nvidia-smi").write_text("#!/bin/sh\n")
    last = time.time() - age
    os.utime(folder, (last, last))
    return folder


def spec(name: str, used: str) -> Spec:
    return Spec(name, "127.0.0.1", 2222, "root", "", 0, "", "plain", "", used)


def test_a_new_layer_takes_the_unused_ones_away(roots: Path) -> None:
    unused = [layer(roots, name, OLD) for name in ("layer-0123", "layer-rpm-4567")]
    recent = layer(roots, "layer-89ab", rootfs.KEPT - 60)
    root = layer(roots, "debian-bookworm-0123", OLD)
    made = rootfs.dnf5_layer()
    assert [path for path in unused if path.exists()] == []
    assert recent.is_dir()
    assert root.is_dir()
    assert {path.name for path in roots.iterdir()} == {
        *(path.name for path in (recent, root, made)),
        "roots.lock",
    }


def test_a_layer_of_a_host_stays(roots: Path) -> None:
    used = layer(roots, "layer-rpm-0123", OLD)
    folder = hosts_dir("other") / "gpu-1"
    folder.mkdir(parents=True)
    spec("gpu-1", f"{roots}/layer-dnf5-89ab:{used}").save(folder)
    rootfs.dnf5_layer()
    assert (used / "usr/bin/nvidia-smi").exists()


@pytest.fixture
def mounted(roots: Path) -> Iterator[Path]:
    """Return an old layer that a process has mounted, but no host in the cache."""
    reason = namespaced.reason_against("trial")
    if reason:
        pytest.skip(f"hosts in namespaces: {reason}")
    used = layer(roots, "layer-0123", OLD)
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs t "$0" && mkdir "$0/low" "$0/all" && '
         'mount -t overlay -o lowerdir="$1:$0/low" o "$0/all" && echo up && read -r end',
         "/mnt", str(used)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield used
        process.communicate("\n", timeout=30)


def test_a_mounted_layer_stays(mounted: Path) -> None:
    rootfs.dnf5_layer()
    assert (mounted / "usr/bin/nvidia-smi").exists()


def test_use_renews_a_layer(roots: Path) -> None:
    made = rootfs.dnf5_layer()
    last = time.time() - OLD
    os.utime(made, (last, last))
    assert rootfs.dnf5_layer() == made
    layer(roots, "layer-0123", OLD)
    rootfs._remove_unused(roots)
    assert sorted(path.name for path in roots.glob("*-*")) == [made.name]


def test_a_layer_in_daily_use_waits_for_no_lock(roots: Path) -> None:
    made = rootfs.dnf5_layer()
    with flock.locked(roots / "roots.lock", 1):
        assert rootfs.dnf5_layer() == made


def test_a_sweep_that_was_killed_leaves_no_incomplete_layer(
    roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer(roots, "layer-0123", OLD)
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *args, **more: None)
        rootfs._remove_unused(roots)
    assert list(roots.glob("layer-*")) == []
    rootfs._remove_unused(roots)
    assert list(roots.iterdir()) == []
