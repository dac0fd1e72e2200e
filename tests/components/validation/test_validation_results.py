"""Output and error messages of a validation."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from pulumi.runtime import rpc

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.desired.rollout import RebootRequest
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.hosts.reboot.component import reboot_request
from gpu_cluster.nodes import record
from gpu_cluster.nodes.causes import read as read_causes
from gpu_cluster.requests import read, write
from gpu_cluster.validation import validation, xid
from gpu_cluster.validation.job import ObservedJob
from gpu_cluster.validation.node import NodeCheck
from gpu_cluster.validation.node_result import NAMED, output
from tests.desired_host import rebooting
from tests.fixtures.clusters import cluster
from tests.mocks import declare


def members(count: int) -> list[dict[str, Any]]:
    note = record.encode(
        record.ValidationRecord(devices={f"GPU-{n}": [] for n in range(8)}, since="now")
    )
    return [
        {"metadata": {"name": f"gpu-{n}", "annotations": {record.RECORD: note}}, "status": {}}
        for n in range(count)
    ]


def test_uuids_of_a_large_pool_are_left_to_its_nodes() -> None:
    made = cluster()
    document = resolve(made, "test").validation.pools[0]
    few, many = (output(document, members(count))["nodes"] for count in (NAMED, 800))
    assert all(len(node["devices"]) == 8 for node in few)
    assert all(node["devices"] == {} and node["computed"] == 8 for node in many)
    assert len(json.dumps(many)) < 200 * 800


def test_an_error_says_what_the_driver_wrote_into_the_hosts_log() -> None:
    failed: Any = [
        SimpleNamespace(name=name, problem="exit code 1", cure="", node={"spec": {}})
        for name in ("gpu-1", "gpu-2")
    ]
    reports = {"gpu-1": "host gpu-1: NVRM: Xid (PCI:0000:3b:00): 79"}
    faults = list(
        validation._failed_nodes(failed, resolve(cluster(), "test").validation.pools[0], 2, reports)
    )
    assert [(fault.place, fault.found) for fault in faults[:2]] == [
        ("node gpu-1", "exit code 1; host gpu-1: NVRM: Xid (PCI:0000:3b:00): 79"),
        ("node gpu-2", "exit code 1"),
    ]


def test_hosts_in_the_documents_of_programs_can_be_reached() -> None:
    made = cluster()
    pool = resolve(made, "test").validation.pools[0]
    by_node = read(PoolValidation, write(pool)).hosts
    assert {node: host.node for node, host in by_node.items()} == {n: n for n in by_node}
    rebooted = read(RebootRequest, write(reboot_request(rebooting(made), "key"))).hosts
    assert [host for host in rebooted if host.node in by_node] == [*by_node.values()]


def test_what_a_node_waits_for_is_shown_as_it_waits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def lines(hosts: Any, key: str, nodes: list[str]) -> dict[str, str]:
        assert len(nodes) == validation.EXPLAINED
        return {"gpu-0": "host gpu-0: NVRM: Xid (PCI:0000:3b:00): 79"}

    monkeypatch.setattr(xid, "lines", lines)
    monkeypatch.setattr(validation, "TOLD", 0.0)

    async def explained() -> str:
        return "not scheduled: no room"

    checks: Any = [
        SimpleNamespace(
            name=f"gpu-{n}", waits="no room", done=False, explained=explained, has_surplus=False
        )
        for n in range(validation.EXPLAINED + 2)
    ]
    run = validation._Run(SimpleNamespace(), resolve(cluster(), "test").validation.pools)  # type: ignore[arg-type]
    run.checks = checks
    asyncio.run(run.tell())
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "node gpu-0: waits: not scheduled: no room; host gpu-0: NVRM: Xid (PCI:0000:3b:00): 79"
    )
    assert said[1] == "node gpu-1: waits: not scheduled: no room"
    assert said[-1] == "2 more nodes wait"


@pytest.mark.promise(
    "`gpu-cluster up` says immediately that a node advertises more GPUs than the stack file "
    "declares."
)
def test_a_node_with_more_gpus_than_declared_is_named_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def nothing(*_: Any) -> Any:
        return {}

    monkeypatch.setattr(xid, "lines", nothing)
    monkeypatch.setattr(read_causes, "lines_of_node", nothing)
    pool = resolve(cluster(), "test").validation.pools[0]
    counts = {kind: {name: str(n + 1) for name, n in pool.resources.items()}
              for kind in ("capacity", "allocatable")}  # fmt: skip
    node = {"metadata": {"name": "gpu-1"}, "status": counts}
    run = validation._Run(SimpleNamespace(), [pool])  # type: ignore[arg-type]
    check = NodeCheck(run.client, pool, node, {})
    asyncio.run(check.step(ObservedJob()))
    run.checks = [check]
    asyncio.run(run.tell())
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith(f"node gpu-1: waits: {pool.gpus + 1} GPUs allocatable, {pool.gpus} ")
    assert "declare all GPUs of the node in gpusPerNode" in said
    asyncio.run(run.tell())
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("no_hooks")
@pytest.mark.parametrize("hosts", [True, False], ids=["hosts", "no hosts"])
def test_the_key_to_the_hosts_is_a_secret_and_given_only_where_there_are_any(hosts: bool) -> None:
    def program() -> None:
        made = cluster() if hosts else cluster(hosts=[])
        key = pulumi.Output.secret("the key")
        GpuCluster("gpu-cluster", GpuClusterArgs(settings=made, private_key=key))

    recorder = declare(program, preview=False)
    commands = recorder.of("command:local:Command")
    (given,) = [
        each.inputs["stdin"] for each in commands if "validation validate" in each.inputs["create"]
    ]
    assert ("the key" in json.dumps(given)) is hosts
    assert isinstance(given, dict) is hosts
    if hosts:
        assert given[rpc._special_sig_key] == rpc._special_secret_sig
    # Child processes would inherit the environment, and the user's other processes could read it.
    environments = json.dumps([each.inputs.get("environment", {}) for each in commands])
    assert "the key" not in environments
    assert rpc._special_sig_key not in environments
