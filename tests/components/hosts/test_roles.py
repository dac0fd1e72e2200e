"""Effects of a host's role and a node's state: ports, steps, order of reboots, reports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.hosts.reboot.reboot import Turns
from gpu_cluster.hosts.steps.firewall import CONTROL_PLANE_PORTS, WORKER_PORTS
from gpu_cluster.inspection.judgement import Seen, judged
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.inspect import CORDONED, cordoned_by_others, cordoner
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.host import Role
from gpu_rules.faults import ConfigError
from tests.desired_host import desired_host
from tests.fixtures.documents import document

Json = dict[str, Any]


def cluster(role: str, gpus: int = 8, **sections: Any) -> Cluster:
    declared = document(**sections)
    (pool, *_), (host, *_) = declared["pools"], declared["hosts"]
    declared["pools"] = [{**pool, "nodes": [host["name"]], "gpusPerNode": gpus}]
    declared["hosts"] = [{**host, "role": role}]
    return load(declared)


def assigned(script: str, name: str) -> str:
    (line,) = (line for line in script.splitlines() if line.startswith(f"{name}="))
    return line.partition("=")[2].strip("'")


@pytest.mark.parametrize(
    ("role", "ports"),
    [
        ("gpu-worker", WORKER_PORTS),
        ("gpu-control-plane", (*CONTROL_PLANE_PORTS, *WORKER_PORTS)),
    ],
)
def test_a_control_plane_with_gpus_has_the_ports_of_both(role: str, ports: tuple[str, ...]) -> None:
    declared = cluster(role, system={"firewall": "rules"})
    (host,) = declared.hosts
    wanted = assigned(prepare_script(desired_host(declared, host)), "GC_PORTS").split()
    assert wanted == list(dict.fromkeys(ports))


def test_a_control_plane_with_gpus_gets_what_gpus_need_and_joins_nothing() -> None:
    declared = cluster("gpu-control-plane")
    (host,) = declared.hosts
    assert desired_host(declared).configures_runtime
    assert "nouveau" in assigned(prepare_script(desired_host(declared, host)), "GC_BLACKLIST")
    assert not desired_host(declared, host).joins


@pytest.mark.parametrize("role", [role for role in Role if not role.has_gpus])
def test_gpus_of_a_host_without_a_role_for_them_are_refused(role: Role) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster(role)
    (problem,) = raised.value.faults
    assert problem.place == "hosts[0].role"
    assert problem.cure.startswith(f'write "role: gpu-{role.removeprefix("cpu-")}"')


def most_at_once(role: Role) -> int:
    """Return how many of three hosts with this role are down at the same time if three may be."""
    down, most = 0, 0

    async def reboot(turns: Turns, name: str) -> None:
        nonlocal down, most
        async with turns.turn(name, role):
            down += 1
            most = max(most, down)
            await asyncio.sleep(0)
            down -= 1

    async def run() -> None:
        turns = Turns(3)
        await asyncio.gather(*(reboot(turns, name) for name in "abc"))

    asyncio.run(run())
    return most


@pytest.mark.parametrize("role", Role)
def test_of_the_control_plane_one_host_reboots_at_a_time(role: Role) -> None:
    assert most_at_once(role) == (1 if role.is_control_plane else 3)


def node(name: str, unschedulable: bool, **annotations: str) -> Json:
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"unschedulable": unschedulable},
    }


def test_only_what_somebody_else_cordoned_is_reported() -> None:
    nodes = [node("a", True), node("b", True, **{CORDONED: "1"}), node("c", False)]
    assert cordoned_by_others(nodes) == ["a"]
    found = ClusterSeen(cordoned=("b",), unschedulable=tuple(cordoned_by_others(nodes)))
    declared = cluster("gpu-worker")
    (warning,) = judged(resolve(declared, "dev"), Seen(cluster=found)).warnings
    assert warning.startswith("node a: found cordoned, not by this program; wanted")


@pytest.mark.promise("A preview names NVSentinel or an autoscaler if it cordoned a node, and why.")
def test_who_cordoned_a_node_is_named_with_the_reason() -> None:
    # Source: NVIDIA/NVSentinel, tests of fault-quarantine: labels, and the condition GpuXidError.
    by_sentinel = node("a", True)
    by_sentinel["metadata"]["labels"] = {
        "k8saas.nvidia.com/cordon-by": "NVSentinel",
        "k8saas.nvidia.com/cordon-reason": "GPU-fatal-error-ruleset",
    }
    xid = {"type": "GpuXidError", "status": "True", "message": "ErrorCode:79\x1b[2J"}
    by_sentinel["status"] = {"conditions": [xid, {**xid, "type": "GpuOther", "status": "False"}]}
    who = cordoner(by_sentinel)
    assert who.startswith("NVSentinel (GPU-fatal-error-ruleset; GpuXidError: ErrorCode:79")
    assert who.isprintable()
    leaving = node("b", True)
    leaving["spec"]["taints"] = [{"key": "ToBeDeletedByClusterAutoscaler"}]
    assert cordoner(leaving) == "cluster-autoscaler, which removes the node"
    assert cordoner(node("c", True)) == ""
    found = ClusterSeen(unschedulable=("a",), cordoners={"a": who})
    (warning,) = judged(resolve(cluster("gpu-worker"), "dev"), Seen(cluster=found)).warnings
    assert warning.startswith("node a: found cordoned by NVSentinel (GPU-fatal-error-ruleset;")
