"""Unit tests of an upgrade: the control plane goes first, and its failure stops the rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import Phase, RolledHost, RolloutRequest
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.rollout.rollout import RolloutRun
from gpu_cluster.rollout.target import fault
from tests.fixtures.clusters import HOST_KEY, cluster

ONE = {"cp-1": "control-plane", "gpu-1": "gpu-worker"}
THREE = {**dict.fromkeys(("cp-1", "cp-2", "cp-3"), "control-plane"), "gpu-1": "gpu-worker"}


class Steps(RolloutRun):
    """A rollout that only records its steps; the step named by `fails` raises an error."""

    def __init__(self, fails: str = "", down: str = "") -> None:
        self.client = Server(0, down)  # type: ignore[assignment]
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


def request(boot_timeout_seconds: float = 1, roles: Mapping[str, str] = ONE) -> RolloutRequest:
    """Return a rollout of a control plane that the stack created, and of a worker."""
    declared = [
        {"name": name, "role": role, "address": f"192.0.2.{number}", "hostKey": HOST_KEY}
        for number, (name, role) in enumerate(roles.items(), 1)
    ]
    init = {"endpoint": "192.0.2.100:6443", "network": {"manifest": "cni.yaml"}}
    packages = {"version": "1.34.4", "init": init}
    desired = resolve(cluster(hosts=declared, kubernetesPackages=packages), "test")
    prepare = Phase(name="prepare", script="", lines={})
    return RolloutRequest(
        rollout=replace(desired.rollout, boot_timeout_seconds=boot_timeout_seconds),
        hosts=tuple(
            RolledHost(
                target=host.target,
                prepare=prepare,
                runtime=None,
                has_gpus=False,
                upgrade=host.upgrade,
            )
            for host in desired.hosts
        ),
        operands=desired.operands,
        pools={},
        private_key="",
    )


def roll(steps: Steps, roles: Mapping[str, str] = ONE) -> None:
    asyncio.run(steps.roll_nodes(request(roles=roles).hosts))


UPGRADED = ("members up", "prepare upgrade", "API server ready")
CHANGED = ("drain", "change", "release")


def test_the_control_plane_is_upgraded_before_its_node_is_drained() -> None:
    roll(steps := Steps())
    assert steps.told == [
        *(f"cp-1 {step}" for step in (*UPGRADED, "members up", *CHANGED)),
        *(f"gpu-1 {step}" for step in CHANGED),
    ]


def test_no_kubelet_changes_before_all_control_planes_are_upgraded() -> None:
    roll(steps := Steps(), THREE)
    members = ("cp-1", "cp-2", "cp-3")
    assert steps.told == [
        *(f"{name} {step}" for name in members for step in UPGRADED),
        *(f"{name} {step}" for name in members for step in ("members up", *CHANGED)),
        *(f"gpu-1 {step}" for step in CHANGED),
    ]


def test_a_control_plane_that_is_down_is_mended_before_another_changes() -> None:
    roll(steps := Steps(down="cp-2"), THREE)
    assert steps.told[:4] == [*(f"cp-2 {step}" for step in UPGRADED), "cp-1 members up"]


def test_an_upgrade_that_fails_leaves_the_other_control_planes_as_before() -> None:
    steps = Steps(fails="prepare upgrade")
    with pytest.raises(ClusterError, match="cp-2, cp-3, gpu-1: found not started"):
        roll(steps, THREE)
    assert steps.told == ["cp-1 members up", "cp-1 prepare upgrade"]


class Server:
    """Fake API server that becomes ready after `starts` requests.

    It lists the pods of etcd of three nodes; the one of the node `down` isn't ready.
    """

    def __init__(self, starts: int, down: str = "") -> None:
        self.starts, self.down = starts, down

    async def is_ready(self) -> bool:
        self.starts -= 1
        return self.starts < 0

    async def list(self, _: str, **__: str) -> list[object]:
        return [
            {
                "metadata": {"name": f"etcd-{node}", "labels": {"component": "etcd"}},
                "spec": {"nodeName": node},
                "status": {"conditions": [{"type": "Ready", "status": str(node != self.down)}]},
            }
            for node in ("cp-1", "cp-2", "cp-3")
        ]


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
