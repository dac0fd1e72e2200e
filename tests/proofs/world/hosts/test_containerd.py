"""Tests of containerd configurations from public repositories with real containerd daemons."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_cluster.settings.hosts.runtime import DefaultRuntime, RuntimeSettings
from gpu_cluster_lab import toolchain
from gpu_cluster_lab.simulator.hosts import namespaced
from tests.proofs.hosts import cri
from tests.proofs.hosts.declared import runtime
from tests.proofs.hosts.machine import Running, differences, start, temporary_cluster
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.full

BY_CLASS = runtime(RuntimeSettings(default_runtime=DefaultRuntime.RUNC))
ROOT = "/etc/containerd/config.toml"
UNIT = "/etc/systemd/system/containerd.service"
PROGRAMS = {1: "/usr/bin/containerd", 2: "/opt/site/containerd"}
CASES = [
    pytest.param(name, release, marks=row.marks)
    for name, row in rows("containerd").items()
    for release in row.containerd
]


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """Yield a simulated host for all tests; each test restores the files that it changes."""
    with temporary_cluster() as cluster:
        reason = namespaced.reason_against(cluster)
        if reason:
            pytest.skip(f"hosts in namespaces: {reason}")
        host = start(cluster, "gpu-1", mode="namespaces")[0]
        newer = toolchain.ensure("containerd-2.4")["containerd-2.4"]
        (host.root / "opt/site").mkdir()
        shutil.copyfile(newer.path, host.root / PROGRAMS[2].lstrip("/"))
        host.run(f"chmod 755 {PROGRAMS[2]}; cp -a /etc/containerd /root/containerd")
        yield host


@pytest.fixture
def host(shared: Running) -> Iterator[Running]:
    """Yield the host with Debian's default files, and restore them after the test."""
    yield shared
    shared.undo(BY_CLASS)
    shared.run("rm -rf /var/lib/gpu-cluster")
    shared.run(f"rm -rf /etc/containerd {UNIT}; cp -a /root/containerd /etc/containerd")
    shared.run("systemctl daemon-reload; systemctl restart containerd")


@pytest.mark.parametrize(("name", "release"), CASES)
def test_files_of_the_world_are_taken_whole_or_refused(
    host: Running, situation: Callable[[str, str], Situation], name: str, release: int
) -> None:
    row = situation("containerd", name)
    host.run("rm -rf /etc/containerd")
    host.write(
        UNIT, f"[Service]\nExecStart={PROGRAMS[release]}\n[Install]\nWantedBy=multi-user.target\n"
    )
    row.place(host.root)
    host.run("systemctl daemon-reload; systemctl restart containerd")
    before, text = host.tree(), host.read(ROOT)
    done = host.apply(BY_CLASS)
    if row.wanted == "named":
        assert done.status == 1, done
        assert all(word in done.errors for word in row.says), done.errors
        assert host.read(ROOT) == text
        return
    assert done.errors == "", done.errors
    assert done.status == 0
    asked = cri.runtime_config(host.root / "run/containerd/containerd.sock")["containerd"]
    assert {"nvidia", *row.lists} <= asked["runtimes"].keys()
    assert {key: kept(host, release)[key] for key in row.keeps} == dict(row.keeps)
    assert host.apply(BY_CLASS).output == "changed=0\n"
    assert host.undo(BY_CLASS).status == 0
    assert differences(before, host.tree()) == {}


def kept(host: Running, release: int) -> dict[str, Any]:
    """Return values of the configuration as the host's containerd merges it, by short names."""
    dumped = host.run(f"{PROGRAMS[release]} config dump").output
    config = tomllib.loads(dumped)
    plugins = config["plugins"]
    if "io.containerd.grpc.v1.cri" in plugins and "sandbox_image" in str(plugins):
        part = plugins["io.containerd.grpc.v1.cri"]
        sandbox, registry, containers = part["sandbox_image"], part["registry"], part["containerd"]
    else:
        images = plugins["io.containerd.cri.v1.images"]
        sandbox, registry = images["pinned_images"]["sandbox"], images["registry"]
        containers = plugins["io.containerd.cri.v1.runtime"]["containerd"]
    return {
        "sandbox": sandbox,
        "certs": registry["config_path"],
        "default": containers["default_runtime_name"],
        "root": config["root"],
        "oom": config["oom_score"],
    }
