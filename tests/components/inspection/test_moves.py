"""A move between a device plugin and DRA is refused while it would lose or share GPUs."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from gpu_cluster.change.document import ClusterChange
from gpu_cluster.inspection import moves
from tests.components.change.world import World, base, claim, desired_of, pod

Json = dict[str, Any]
DRA = {**base(), "platform": "dra", "runtime": {"defaultRuntime": "runc"}}
CONFIG = {
    "version": "v1",
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
}
RENAMED: Json = {
    "version": "v1",
    "sharing": {
        "timeSlicing": {
            "renameByDefault": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
        }
    },
}


def texts(change: ClusterChange) -> list[str]:
    return [fault.text for fault in change.faults]


def moved(before: Json, after: Json, *pods: Json) -> list[str]:
    world = World.of(before)
    world.pods.extend(pods)
    return [text for text in texts(world.change(after)) if " → " in text]


@pytest.mark.promise(
    "A preview refuses a move from a device plugin to DRA while pods hold GPUs, which both would "
    "allocate."
)
def test_pods_that_hold_gpus_stop_a_move_to_dra() -> None:
    (text,) = moved(base(), DRA, pod("train-0", "gpu-1", 8), pod("web", "gpu-3"))
    assert text.startswith("platform device-plugin → dra: found 1 pod with GPUs of device-plu")
    assert "team-a/train-0 (gpu-1, 8)" in text
    assert "web" not in text
    assert moved(base(), DRA, pod("web", "gpu-3")) == []


def test_pods_that_hold_gpus_stop_a_move_from_dra() -> None:
    assert "GPUs of dra" in moved(DRA, base(), pod("train-0", "gpu-1", 8))[0]


def joined(document: Json, *pods: Json, claims: Sequence[Json] = ()) -> list[str]:
    """Return the faults of a new stack on a cluster that has these pods and claims."""
    world = World.of(document)
    for node in world.nodes.values():
        node["metadata"]["annotations"].clear()
    world.pods.extend(pods)
    world.claims.extend(claims)
    return [text for text in texts(world.change(document)) if "second time" in text]


def test_a_pod_that_got_gpus_by_a_plugin_stops_a_node_that_joins_a_stack_with_dra() -> None:
    (text,) = joined(DRA, pod("train-0", "gpu-1", 8), pod("web", "gpu-2"))
    assert text.startswith("platform dra: found 1 pod with GPUs of a device plugin, team-a/t")
    by_claim = pod("train-0", "gpu-1", 8)
    by_claim["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "train-0"}
    assert joined(DRA, by_claim, claims=[claim("train-0", "gpu-1", 8)]) == []


def test_a_claim_stops_a_node_that_joins_a_stack_with_a_device_plugin() -> None:
    (text,) = joined(base(), pod("train-0", "gpu-1"), claims=[claim("train-0", "gpu-1", 8)])
    assert "platform device-plugin: found 1 pod with GPUs of a DRA driver" in text
    assert joined(base(), pod("train-0", "gpu-1", 8)) == []


def test_a_node_of_another_stack_is_refused_before_anything_changes() -> None:
    world = World.of(base())
    notes = world.nodes["gpu-2"]["metadata"]["annotations"]
    notes["gpu-cluster/applied.a100"] = notes["gpu-cluster/applied.a100"].replace('"dev"', '"lab"')
    (text,) = texts(world.change(base()))
    assert text.startswith("pool a100: node gpu-2: found nodes of stack lab; wanted: nodes of one")


def test_gpus_of_a_pod_that_the_scheduler_met_with_a_claim_are_counted_once() -> None:
    world = World.of(DRA)
    held = pod("train-0", "gpu-1", 4)
    held["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "train-0"}
    world.pods.append(held)
    world.claims.append(claim("train-0", "gpu-1", 4))
    fewer = copy.deepcopy(DRA)
    fewer["pools"][0]["gpusPerNode"] = 6
    assert world.change(fewer).pods == ()
    fewer["pools"][0]["gpusPerNode"] = 3
    assert [lost.name for lost in world.change(fewer).pods] == ["train-0"]


def test_other_changes_of_the_platform_leave_pods_their_gpus() -> None:
    after = {**base(), "platform": "gpu-operator"}
    assert moved(base(), after, pod("train-0", "gpu-1", 8)) == []


@pytest.mark.parametrize(
    ("config", "resource"), [(CONFIG, "nvidia.com/gpu"), (RENAMED, "nvidia.com/gpu.shared")]
)
def test_shares_of_gpus_that_would_end_stop_a_move_to_dra(config: Json, resource: str) -> None:
    before = {**base(), "devicePlugin": {"config": config}}
    (text,) = moved(before, DRA)
    assert f"found {resource} on gpu-[1-4], shared or partitioned GPUs" in text


@pytest.mark.parametrize(
    ("version", "after", "warned"),
    [
        ("v1.34.4", DRA, True),
        ("v1.35.4", DRA, True),
        ("v1.36.3", DRA, False),
        ("", DRA, False),
        ("v1.35.4", {**base(), "platform": "gpu-operator"}, False),
    ],
)
def test_pods_that_would_wait_for_ever_by_the_resources_name_are_a_warning(
    version: str, after: Json, warned: bool
) -> None:
    validation = World.of(base()).inspected(desired_of(after)).difference.validation
    found = [str(each) for each in moves.warnings(validation, version)]
    assert [("DRAExtendedResource" in text) for text in found] == [True] * warned
