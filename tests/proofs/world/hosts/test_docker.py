"""Tests of Docker configurations from public repositories with a real Docker daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpu_cluster_lab.simulator.hosts import namespaced
from tests.proofs.hosts.docker import CONFIG, UNIT, says, script, start_docker
from tests.proofs.hosts.machine import Running, temporary_cluster
from tests.proofs.world.hosts.rows import Situation, rows

pytestmark = pytest.mark.full

WANTED = script(docker={"storage_driver": "leave", "forward": "leave"})
SERVICE = "/etc/systemd/system/docker.service"
OURS = {"default-runtime", "runtimes"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Running]:
    """Yield a simulated host for all tests; each test restores the files that it changes."""
    with temporary_cluster() as cluster:
        reason = namespaced.reason_against(cluster)
        if reason:
            pytest.skip(f"hosts in namespaces: {reason}")
        yield start_docker(cluster)


@pytest.fixture
def host(shared: Running) -> Iterator[Running]:
    """Yield the host with a running Docker daemon that has no settings."""
    shared.write(SERVICE, UNIT)
    shared.run(f"rm -f {CONFIG}; systemctl daemon-reload; systemctl restart docker")
    yield shared
    shared.undo(WANTED)
    shared.run("rm -rf /var/lib/gpu-cluster")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=row.marks) for name, row in rows("docker").items()]
)
def test_settings_of_the_world_are_merged_whole_or_refused(
    host: Running, situation: Callable[[str, str], Situation], name: str
) -> None:
    row = situation("docker", name)
    host.write(SERVICE, UNIT.replace("dockerd-apart ", f"dockerd-apart {row.exec} "))
    assert host.run("systemctl daemon-reload; systemctl restart docker").status == 0
    if row.daemon is not None:
        host.write(CONFIG, row.daemon)
        if row.wanted == "configured":
            assert host.run("systemctl restart docker").status == 0
    done = host.apply(WANTED)
    if row.wanted == "named":
        assert done.status == 1, done
        assert all(word in done.errors for word in row.says), done.errors
        assert (host.read(CONFIG) if host.exists(CONFIG) else None) == row.daemon
        assert host.run("systemctl is-active docker").output == "active\n"
        return
    assert done.errors == "", done.errors
    assert done.status == 0
    assert "nvidia" in says(host)["Runtimes"]
    before: dict[str, Any] = json.loads(row.daemon or "{}")
    after: dict[str, Any] = json.loads(host.read(CONFIG)) if host.exists(CONFIG) else {}
    assert without(after) == without(before)
    assert before.get("runtimes", {}).keys() <= {*after.get("runtimes", {}), "nvidia"}
    assert host.apply(WANTED).output.splitlines()[-1] == "changed=0"
    assert host.undo(WANTED).status == 0
    if row.daemon is not None:
        assert host.read(CONFIG) == row.daemon


def without(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those that this program writes."""
    return {key: value for key, value in settings.items() if key not in OURS}
