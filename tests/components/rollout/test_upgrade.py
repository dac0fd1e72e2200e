"""Unit tests of an upgrade: the control plane goes first, and its failure stops the rollout."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import Phase, RolledHost, RolloutRequest
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.rollout.rollout import RolloutRun
from gpu_cluster.rollout.target import fault
from gpu_cluster.rollout.waves import in_waves
from tests.fixtures.clusters import cluster


class Steps(RolloutRun):
    """A rollout that only records its steps; the step named by `fails` raises an error."""

    def __init__(self, fails: str = "") -> None:
        self.request = request()
        self.rolled, self.told, self.fails = [], [], fails

    async def step(self, target: RolledHost, what: str) -> None:
        self.told.append(f"{target.target.name} {what}")
        if what == self.fails:
            raise fault(target, "kubeadm upgrade apply failed", "status 0", "see what it names")

    async def script(self, target: RolledHost, phase: Phase, action: str) -> None:
        await self.step(target, f"{phase.name} {action}")

    async def require_members(self, target: RolledHost) -> None:
        if target.target.role.is_control_plane:
            await self.step(target, "members up")

    async def api_back(self, target: RolledHost) -> None:
        await self.step(target, "API server ready")

    async def empty(self, target: RolledHost) -> None:
        await self.step(target, "drain")

    async def change(self, target: RolledHost) -> None:
        await self.step(target, "change")

    async def release(self, target: RolledHost) -> None:
        await self.step(target, "release")


def request(boot_timeout_seconds: float = 1) -> RolloutRequest:
    """Return a rollout of a control plane that the stack created, and of a worker."""
    desired = resolve(cluster(), "test")
    hosts = {host.name: host.target for host in desired.hosts}
    prepare = Phase(name="prepare", script="", lines={})
    return RolloutRequest(
        rollout=replace(desired.rollout, boot_timeout_seconds=boot_timeout_seconds),
        hosts=tuple(
            RolledHost(
                target=hosts[name],
                prepare=prepare,
                runtime=None,
                has_gpus=False,
                upgrades=name == "cp-1",
            )
            for name in ("cp-1", "gpu-1")
        ),
        operands=desired.operands,
        pools={},
        private_key="",
    )


def roll(steps: Steps) -> None:
    first, worker = request().hosts
    asyncio.run(in_waves([first], [worker], 1, steps.roll, lambda host: host.target.name))


def test_the_control_plane_is_upgraded_before_its_node_is_drained() -> None:
    roll(steps := Steps())
    assert steps.told == [
        "cp-1 members up",
        "cp-1 prepare upgrade",
        "cp-1 API server ready",
        *(f"cp-1 {step}" for step in ("drain", "change", "release")),
        *(f"gpu-1 {step}" for step in ("drain", "change", "release")),
    ]


class Server:
    """Fake API server that becomes ready after `starts` requests."""

    def __init__(self, starts: int) -> None:
        self.starts = starts

    async def is_ready(self) -> bool:
        self.starts -= 1
        return self.starts < 0

    async def list(self, _: str, **__: str) -> list[object]:
        return []


def test_an_api_server_of_a_changed_host_is_waited_for() -> None:
    first, worker = request().hosts

    def wait(target: RolledHost, starts: int, limit: float) -> None:
        rollout = RolloutRun(Server(starts), request(limit))  # type: ignore[arg-type]
        asyncio.run(rollout.api_back(target))

    wait(first, starts=2, limit=30)
    wait(worker, starts=1000, limit=0)  # A worker has no API server to wait for.
    with pytest.raises(ClusterError, match=r"found an API server that isn't ready .*/readyz: ok"):
        wait(first, starts=1000, limit=0)


def test_an_upgrade_that_fails_leaves_its_node_in_use_and_the_workers_as_before() -> None:
    steps = Steps(fails="prepare upgrade")
    with pytest.raises(ClusterError) as refused:
        roll(steps)
    assert steps.told == ["cp-1 members up", "cp-1 prepare upgrade"]
    assert "kubeadm upgrade apply failed" in str(refused.value)
    assert "gpu-1: found not started, because an earlier node failed" in str(refused.value)
