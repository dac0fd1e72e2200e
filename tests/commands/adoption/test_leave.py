"""`leave` removes only the annotations and labels by which a stack marks what it manages."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_cluster.commands import leave as command
from gpu_cluster.commands.adoption.leave import Handed, is_handed, node_patch, unready
from gpu_cluster.commands.leave import chosen, in_cluster, of_pool
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.nodes.startup_taint import TAINT
from gpu_rules.faults import Fault, FaultError

Json = dict[str, Any]
MANAGER = "gpu-cluster-prod-a100"
HANDED = Handed(stack="prod", managers=frozenset({MANAGER}))


def node(stack: str = "prod", pool: str = "a100", **spec: Any) -> Json:
    record = {"stack": stack, "pool": pool, "gpus": 8, "labels": {}, "taints": []}
    return {
        "metadata": {
            "name": "gpu-1",
            "resourceVersion": "7",
            "annotations": {
                f"gpu-cluster/applied.{pool}": json.dumps(record),
                "gpu-cluster/taints": "[]",
                "example.com/kept": "x",
            },
            "managedFields": [
                {"manager": MANAGER, "operation": "Apply"},
                {"manager": "gpu-cluster-prod-2-a100", "operation": "Apply"},
                {"manager": "kubelet", "operation": "Update"},
            ],
        },
        "spec": spec,
    }


def test_only_notes_and_ownership_of_the_stack_are_removed_from_a_node() -> None:
    patch = node_patch(node(), HANDED)
    removed = [step["path"] for step in patch if step["op"] == "remove"]
    assert removed == [
        "/metadata/annotations/gpu-cluster~1applied.a100",
        "/metadata/annotations/gpu-cluster~1taints",
    ]
    (fields,) = [step["value"] for step in patch if step["path"] == "/metadata/managedFields"]
    assert [entry["manager"] for entry in fields] == ["gpu-cluster-prod-2-a100", "kubelet"]
    assert patch[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert not any(step["path"].startswith(("/metadata/labels", "/spec")) for step in patch)


def test_a_node_of_another_stack_or_pool_is_left_alone() -> None:
    assert is_handed(node(), HANDED)
    assert not is_handed(node(stack="test"), HANDED)
    one = Handed(stack="prod", managers=frozenset({MANAGER}), pools=frozenset({"t4"}))
    assert not is_handed(node(), one)


def test_a_node_in_the_middle_of_a_change_is_refused() -> None:
    assert unready([node()], HANDED) == []
    (fault,) = unready([node(taints=[TAINT])], HANDED)
    assert fault.cure == "run `gpu-cluster up --stack prod` first"
    assert unready([node(stack="test", taints=[TAINT])], HANDED) == []


def test_objects_stay_but_for_those_of_the_validation() -> None:
    urn = "urn:pulumi:prod::gpu-cluster::x::gpu-cluster-"
    space = {"apiVersion": "v1", "kind": "Namespace"}
    resources = [
        {"type": "pulumi:pulumi:Stack", "urn": f"{urn}stack"},
        {
            "type": "kubernetes:helm.sh/v3:Release",
            "urn": f"{urn}gpu-platform-release",
            "outputs": {"name": "nvdp", "namespace": "kube-system"},
        },
        {
            "type": "kubernetes:core/v1:Namespace",
            "urn": f"{urn}gpu-platform-namespace",
            "outputs": {**space, "metadata": {"name": "nvidia-device-plugin"}},
        },
        {
            "type": "kubernetes:core/v1:Namespace",
            "urn": f"{urn}validation-namespace",
            "outputs": {**space, "metadata": {"name": "gpu-validation"}},
        },
    ]
    found = in_cluster(resources)
    assert [str(each) for each in found.releases] == ["release kube-system/nvdp"]
    assert [each.name for each in found.kept] == ["nvidia", "nvidia-device-plugin"]
    assert [each.name for each in found.deleted] == ["gpu-validation"]


def test_the_commands_of_a_pool_are_found_by_its_whole_name() -> None:
    names = ["node-scheduling-a100", "node-scheduling-x-a100", "validation-a100", "validation-b"]
    resources = [{"urn": f"urn::gpu-cluster-{name}"} for name in names]
    assert of_pool(resources, "a100") == [
        "urn::gpu-cluster-node-scheduling-a100",
        "urn::gpu-cluster-validation-a100",
    ]


def stack() -> Any:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEfxFSAF45h/u4FWcTpIO9dleHVOhDTjHvn4WRhQJDYQ"
    pools = [
        {"name": name, "nodes": [f"{name}-[1-2]"], "gpusPerNode": 8} for name in ("a100", "t4")
    ]
    hosts = [
        {"name": name, "address": f"192.0.2.{number}", "hostKey": key}
        for number, name in enumerate(("a100-1", "t4-1", "t4-2"), start=1)
    ]
    document = {"version": "v1", "kubernetes": {"context": "c"}, "platform": "device-plugin"}
    return SimpleNamespace(cluster=load({**document, "pools": pools, "hosts": hosts}))


def test_a_pool_is_left_with_its_hosts() -> None:
    assert chosen(stack(), "t4", "").hosts == ("t4-1", "t4-2")
    assert chosen(stack(), "", "t4-[1-2],a100-1").hosts == ("t4-1", "t4-2", "a100-1")
    assert chosen(stack(), "", "").is_all


@pytest.mark.parametrize("part", [("h100", ""), ("", "a100-9")])
def test_a_part_that_the_stack_does_not_have_is_refused(part: tuple[str, str]) -> None:
    with pytest.raises(FaultError):
        chosen(stack(), *part)


@pytest.mark.promise(
    "`gpu-cluster leave` that is refused has removed nothing, also no backup of a host."
)
def test_a_refusal_comes_before_the_first_host_loses_its_backups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def unready_nodes(*_: Any) -> None:
        raise FaultError(
            Fault("node gpu-1", "an unfinished change", "none", "run `gpu-cluster up`")
        )

    left: list[Any] = []
    desired = resolve(stack().cluster, "test")
    fakes = {
        "require_context": lambda _: None,
        "require_own_state": lambda _: None,
        "embedded_cluster": lambda _: None,
        "resolve": lambda *_: desired,
        "select": lambda _: SimpleNamespace(),
        "export_state": lambda _: SimpleNamespace(deployment=None),
        "private_key_of": lambda _: "",
        "leave_hosts": lambda *given: left.append(given),
        "require_ready": unready_nodes,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(command, name, fake)
    prod: Any = SimpleNamespace(cluster=None, name="prod")
    with pytest.raises(FaultError, match="unfinished change"):
        command.run(prod, command.Part(pool="", hosts=()), {})
    assert left == []
