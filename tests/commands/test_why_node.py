"""`gpu-cluster why NODE` reports why a node's GPUs are not usable, with the role of previews."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gpu_cluster.commands.why_node import explain_node
from gpu_rules.faults import FaultError
from tests.components.change.world import World, base, desired_of, pod
from tests.fixtures.api import client

Json = dict[str, Any]
KUBELET = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
DISK = {"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"}


def explained(
    name: str, edit: Callable[[World], None] = lambda _: None, **sections: Any
) -> tuple[str, list[str]]:
    """Return the sentence about a node, and the findings."""
    document = {**base(), **sections}
    world, answer = World.of(base()), {}
    edit(world)
    lists = {"nodes": list(world.nodes.values()), "pods": world.pods}

    def serve(request: httpx.Request) -> httpx.Response:
        items = lists.get(request.url.path.rpartition("/")[2], [])
        if selected := request.url.params.get("fieldSelector", ""):
            key, _, value = selected.partition("=")
            items = [each for each in items if key != "spec.nodeName" or
                     each["spec"].get("nodeName") == value]  # fmt: skip
        return httpx.Response(200, json={"items": items, "metadata": {}})

    asyncio.run(explain_node(client(serve), name, desired_of(document), answer))
    return answer["cause"], answer["findings"]


def with_amount(number: int) -> Callable[[World], None]:
    def edit(world: World) -> None:
        world.nodes["gpu-1"]["status"]["allocatable"]["nvidia.com/gpu"] = str(number)

    return edit


def test_a_node_whose_gpus_are_all_usable_has_no_finding() -> None:
    assert explained("gpu-1") == ("8 of 8 GPUs usable", [])


def test_a_node_with_a_withdrawn_gpu_says_so_and_who_holds_the_others() -> None:
    def edit(world: World) -> None:
        with_amount(7)(world)
        world.pods.append(pod("train", "gpu-1", 4))

    sentence, findings = explained("gpu-1", edit)
    assert sentence == "7 of 8 GPUs usable, 1 unhealthy or withdrawn"
    assert [each for each in findings if "team-a/train (Running, holds 4)" in each]
    assert explained("gpu-2", edit) == ("8 of 8 GPUs usable", [])


@pytest.mark.parametrize(
    ("condition", "words", "cure"),
    [(KUBELET, "is not ready: Kubelet stopped posting node status.", "see the node's kubelet"),
     (DISK, "has DiskPressure: kubelet has disk pressure", "free space")],
)  # fmt: skip
def test_a_condition_of_the_node_is_quoted_with_a_cure(
    condition: Json, words: str, cure: str
) -> None:
    def edit(world: World) -> None:
        world.nodes["gpu-1"]["status"]["conditions"] = [condition]

    (finding,) = (each for each in explained("gpu-1", edit)[1] if words in each)
    assert cure in finding


def test_a_cordon_and_a_taint_of_somebody_else_are_named_and_those_of_the_stack_are_not() -> None:
    def edit(world: World) -> None:
        node = world.nodes["gpu-1"]
        node["spec"]["unschedulable"] = True
        node["spec"]["taints"].append({"key": "example.com/repair", "effect": "NoExecute"})

    _, findings = explained("gpu-1", edit)
    assert [each.partition(";")[0] for each in findings] == [
        "is cordoned",
        "has the taint example.com/repair:NoExecute, which the stack file does not declare",
    ]


def test_a_node_in_maintenance_or_of_another_stack_is_called_that() -> None:
    assert explained("gpu-1", maintenance=["gpu-1"])[0].startswith("in maintenance")
    assert explained("login-1", lambda world: world.join("login-1"))[0].startswith("in no pool")


def test_a_gpu_that_the_stack_file_leaves_out_is_named() -> None:
    document = base()
    document["pools"][0]["unhealthyDevices"] = {"gpu-1": {"index": [2]}}
    _, findings = explained("gpu-1", with_amount(7), pools=document["pools"])
    assert "the stack file leaves out 1 GPU (unhealthyDevices)" in findings


def test_a_node_that_is_not_there_is_a_fault_with_a_cure() -> None:
    with pytest.raises(FaultError, match=r"no such node in the cluster \(4 nodes\).*kubectl get"):
        explained("train")
