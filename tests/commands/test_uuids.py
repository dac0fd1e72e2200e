"""UUIDs of GPUs are in the document of `gpu-cluster up`, not in what the engine prints."""

from __future__ import annotations

from typing import Any

from gpu_cluster.commands.up import with_uuids
from gpu_cluster.nodes import record
from gpu_cluster.outputs import without_uuids
from tests.components.change.world import World, base

NODES: list[dict[str, Any]] = [{"name": "gpu-1", "computed": 8, "devices": {"GPU-1": []}}]


def test_the_engine_prints_no_line_for_each_gpu() -> None:
    assert without_uuids(NODES) == [{"name": "gpu-1", "computed": 8}]


def test_the_document_has_the_uuids_that_the_nodes_keep() -> None:
    live = World.of(base()).nodes
    (node,) = with_uuids(without_uuids(NODES), live)
    kept = record.decode(live["gpu-1"])
    assert kept is not None
    assert node["devices"] == kept.devices
    assert len(node["devices"]) == 8


def test_a_node_without_a_record_has_no_uuid() -> None:
    world = World.of(base())
    world.join("gpu-1")
    (node,) = with_uuids(without_uuids(NODES), world.nodes)
    assert node["devices"] == {}
