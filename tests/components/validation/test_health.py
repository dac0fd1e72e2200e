"""GPUs that no run has set up are due; GPUs that were usable once are missing."""

from __future__ import annotations

from gpu_cluster.change.text import headline, health_text
from tests.components.change.edits import EDITS
from tests.components.change.world import World, base


def test_gpus_of_a_new_node_are_due_and_not_missing() -> None:
    change = EDITS["one node more"].change
    assert health_text([change]) == "32 of 40 GPUs usable; gpu-5: 8 not set up by a run yet"
    assert change.lost == 0


def test_gpus_that_a_validated_node_does_not_advertise_are_missing() -> None:
    world = World.of(base())
    for amounts in ("capacity", "allocatable"):
        world.nodes["gpu-3"]["status"][amounts]["nvidia.com/gpu"] = "0"
    change = world.change(base())
    assert health_text([change]) == "24 of 32 GPUs usable; gpu-3: 8 not advertised"
    assert change.lost == 8


def test_gpus_that_are_not_advertised_now_are_told_once_whatever_else_changes() -> None:
    world = World.of(base())
    for amounts in ("capacity", "allocatable"):
        world.nodes["gpu-3"]["status"][amounts]["nvidia.com/gpu"] = "0"
    document = base()
    document["pools"][0]["labels"] = {"nvidia.com/gpu": "true", "example.com/rack": "r3"}
    assert headline(world.change(document)).startswith("GPUs 32 as before; ")
    assert health_text([world.change(document)]) == "24 of 32 GPUs usable; gpu-3: 8 not advertised"
