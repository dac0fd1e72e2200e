"""A control plane is upgraded before anything else is done to its node, and a failure stops all."""

from __future__ import annotations

import asyncio

import pytest

from components.api import ClusterError
from components.rollout.roll import Rollout
from components.rollout.target import Target, fault
from components.rollout.waves import in_waves
from tests.unit.fixtures.clusters import cluster


class Steps(Rollout):
    """A rollout whose steps are only told; ``fails``: the one that does."""

    def __init__(self, fails: str = "") -> None:
        self.document = {"hosts": [{}, {}], "privateKey": "", "timeoutSeconds": 1}
        self.rolled, self.told, self.fails = [], [], fails

    async def step(self, target: Target, what: str) -> None:
        self.told.append(f"{target.host.name} {what}")
        if what == self.fails:
            raise fault(target, "kubeadm upgrade apply failed", "status 0", "see what it names")

    async def script(self, target: Target, phase: str, action: str) -> None:
        await self.step(target, f"{phase} {action}")

    async def api_back(self, target: Target) -> None:
        await self.step(target, "API server ready")

    async def empty(self, target: Target) -> None:
        await self.step(target, "drain")

    async def change(self, target: Target) -> None:
        await self.step(target, "change")

    async def release(self, target: Target) -> None:
        await self.step(target, "release")


def targets() -> tuple[Target, Target]:
    """The control plane that the stack made, and a worker."""
    hosts = {host.name: host for host in cluster().hosts}
    return (
        Target(hosts["cp-1"], {"upgrades": True}),
        Target(hosts["gpu-1"], {"upgrades": False}),
    )


def roll(steps: Steps) -> None:
    first, worker = targets()
    asyncio.run(in_waves([first], [worker], 1, steps.roll, lambda item: item.host.name))


def test_the_control_plane_is_upgraded_before_its_node_is_drained() -> None:
    roll(steps := Steps())
    assert steps.told == [
        "cp-1 prepare upgrade",
        "cp-1 API server ready",
        *(f"cp-1 {step}" for step in ("drain", "change", "release")),
        *(f"gpu-1 {step}" for step in ("drain", "change", "release")),
    ]


class Server:
    """An API server that says so often that it isn't ready."""

    def __init__(self, starts: int) -> None:
        self.starts = starts

    async def is_ready(self) -> bool:
        self.starts -= 1
        return self.starts < 0


def test_an_api_server_of_a_changed_host_is_waited_for() -> None:
    first, worker = targets()

    def wait(target: Target, starts: int, limit: float) -> None:
        rollout = Rollout(Server(starts), {"privateKey": "", "timeoutSeconds": limit})  # type: ignore[arg-type]
        asyncio.run(rollout.api_back(target))

    wait(first, starts=2, limit=30)
    wait(worker, starts=1000, limit=0)  # has none
    with pytest.raises(ClusterError, match=r"found an API server that isn't ready .*/readyz: ok"):
        wait(first, starts=1000, limit=0)


def test_an_upgrade_that_fails_leaves_its_node_in_use_and_the_workers_as_before() -> None:
    steps = Steps(fails="prepare upgrade")
    with pytest.raises(ClusterError) as refused:
        roll(steps)
    assert steps.told == ["cp-1 prepare upgrade"]
    assert "kubeadm upgrade apply failed" in str(refused.value)
    assert "gpu-1: found not begun, so as before" in str(refused.value)
