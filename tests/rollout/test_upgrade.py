"""A control plane is upgraded before anything else is done to its node, and a failure stops all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from components.api import ClusterError
from components.hosts.reach import declared
from components.rollout.roll import Rollout
from components.rollout.target import Target, fault
from components.rollout.waves import in_waves
from tests.unit.fixtures.clusters import cluster

REACH = {"name", "node", "role", "address", "port", "user", "host_key", "bastion"}


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

    async def empty(self, target: Target) -> None:
        await self.step(target, "drain")

    async def change(self, target: Target) -> None:
        await self.step(target, "change")

    async def release(self, target: Target) -> None:
        await self.step(target, "release")


def targets() -> tuple[Target, Target]:
    """The control plane that the stack made, and a worker."""
    documents: dict[str, dict[str, Any]] = {
        host.name: host.model_dump(mode="json", include=REACH) for host in cluster().hosts
    }
    first, worker = documents["cp-1"], documents["gpu-1"]
    return (
        Target(declared(first), {"upgrades": True}),
        Target(declared(worker), {"upgrades": False}),
    )


def roll(steps: Steps) -> None:
    first, worker = targets()
    asyncio.run(in_waves([first], [worker], 1, steps.roll, lambda item: item.host.name))


def test_the_control_plane_is_upgraded_before_its_node_is_drained() -> None:
    roll(steps := Steps())
    assert steps.told == [
        "cp-1 prepare upgrade",
        *(f"cp-1 {step}" for step in ("drain", "change", "release")),
        *(f"gpu-1 {step}" for step in ("drain", "change", "release")),
    ]


def test_an_upgrade_that_fails_leaves_its_node_in_use_and_the_workers_as_before() -> None:
    steps = Steps(fails="prepare upgrade")
    with pytest.raises(ClusterError) as refused:
        roll(steps)
    assert steps.told == ["cp-1 prepare upgrade"]
    assert "kubeadm upgrade apply failed" in str(refused.value)
    assert "gpu-1: found not begun, so as before" in str(refused.value)
