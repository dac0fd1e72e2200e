"""Reboots of hosts: how many hosts are down at a time, and the command that a host runs."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from gpu_cluster.hosts.reboot.reboot import RebootLimits, Turns, one, reboot_command
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.settings.hosts.host import Role
from tests.desired_host import desired_host
from tests.fixtures.clusters import cluster

HOSTS = {
    "c-1": Role.CONTROL_PLANE,
    "c-2": Role.CONTROL_PLANE,
    "w-1": Role.GPU_WORKER,
    "w-2": Role.GPU_WORKER,
}


def together(at_once: int) -> list[set[str]]:
    """Return the hosts that were down together, at each start of a reboot."""
    seen: list[set[str]] = []

    async def run() -> None:
        turns, down = Turns(at_once), set[str]()

        async def reboot(name: str, role: Role) -> None:
            async with turns.turn(name, role):
                down.add(name)
                seen.append(set(down))
                await asyncio.sleep(0)
                down.remove(name)

        await asyncio.gather(*(reboot(*host) for host in HOSTS.items()))

    asyncio.run(run())
    return seen


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_no_more_hosts_are_down_than_allowed_and_one_of_the_control_plane(at_once: int) -> None:
    seen = together(at_once)
    assert set().union(*seen) == set(HOSTS)
    # Of four hosts, two belong to the control plane and are never down together.
    assert max(map(len, seen)) == min(at_once, 3)
    assert all(not {"c-1", "c-2"} <= down for down in seen)


def test_no_host_is_rebooted_after_one_failed() -> None:
    async def run() -> list[str]:
        turns, rebooted = Turns(1), list[str]()

        async def reboot(name: str) -> None:
            async with turns.turn(name, Role.GPU_WORKER):
                rebooted.append(name)
                if name == "w-2":
                    raise OSError("no answer")

        results = await asyncio.gather(
            *(reboot(f"w-{number}") for number in (1, 2, 3, 4)), return_exceptions=True
        )
        assert [type(result) for result in results[2:]] == [ClusterError, ClusterError]
        assert "w-2 failed" in str(results[2])
        return rebooted

    assert asyncio.run(run()) == ["w-1", "w-2"]


def test_a_host_with_another_boot_id_is_not_rebooted() -> None:
    # The text of a boot ID is an argument of the shell, so it can't become a command.
    for boot_id in ("0", "$(echo rebooted >&2)", '"; echo rebooted >&2; "'):
        done = subprocess.run(
            ["sh", "-c", reboot_command("root", boot_id)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_a_user_other_than_root_reboots_by_sudo() -> None:
    assert reboot_command("admin", "0").startswith("sudo -n sh -c ")


class Server:
    """Fake API server whose second member of etcd is down; it refuses all changes."""

    async def find(self, path: str, **_: str) -> dict[str, object]:
        return {"metadata": {"name": path.rpartition("/")[2]}, "spec": {}}

    async def list(self, path: str, **_: str) -> list[dict[str, object]]:
        assert path == "namespaces/kube-system/pods"
        return [
            {
                "metadata": {"name": f"etcd-{node}", "labels": {"component": "etcd"}},
                "spec": {"nodeName": node},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }
            for node, ready in (("cp-1", "True"), ("cp-2", "False"), ("cp-3", "True"))
        ]


def test_a_control_plane_is_not_rebooted_while_another_is_down() -> None:
    host = desired_host(cluster(), 1).target
    with pytest.raises(ClusterError, match=r"node cp-1: found pods .* aren't ready: etcd-cp-2"):
        asyncio.run(one(Server(), host, "key", "boot", RebootLimits(1, 1, ())))  # type: ignore[arg-type]
