"""The state of each GPU: each GPU counts once, in the state that matters most."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.commands.report.gpu_map import State, totals
from gpu_cluster.nodes import record
from tests.commands.report.reports import defer, pools
from tests.components.change.world import World, base

Json = dict[str, Any]


def of(document: Json, change: Any = lambda node: None) -> dict[State, int]:
    """Return how many GPUs of node gpu-1 are in each state after `change` changed the node."""
    world = World.of(document)
    change(world.nodes["gpu-1"])
    (pool,) = pools(world, document)
    found = {node.name: node for node in pool.nodes}["gpu-1"]
    return dict(found.gpus)


def _withdrawn(node: Json) -> None:
    node["status"]["allocatable"]["nvidia.com/gpu"] = "6"


def _not_advertised(node: Json) -> None:
    for kind in ("capacity", "allocatable"):
        node["status"][kind].pop("nvidia.com/gpu")


def _not_validated(node: Json) -> None:
    node["metadata"]["annotations"].pop(record.RECORD)


def _implausible(node: Json) -> None:
    node["status"]["allocatable"]["nvidia.com/gpu"] = "1e9"
    node["status"]["capacity"]["nvidia.com/gpu"] = "-4"


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda node: None, {State.COMPUTED: 8}),
        (_withdrawn, {State.COMPUTED: 6, State.UNHEALTHY: 2}),
        (_not_advertised, {State.DECLARED: 8}),
        (_not_validated, {State.ADVERTISED: 8}),
        (_implausible, {State.DECLARED: 8}),
        (lambda node: defer(node, 3, "team-a/x"), {State.COMPUTED: 5, State.DEFERRED: 3}),
    ],
)
def test_each_gpu_of_a_node_has_one_state(change: Any, wanted: dict[State, int]) -> None:
    assert of(base(), change) == wanted


@pytest.mark.promise("The report names the pods that use GPUs whose validation is deferred.")
def test_a_deferred_gpu_names_its_holder() -> None:
    world = World.of(base())
    defer(world.nodes["gpu-2"], 8, "team-a/train-0 (8)\x1b[2J")
    (pool,) = pools(world, base())
    held = {node.name: node.held for node in pool.nodes}
    assert held == {"gpu-1": "", "gpu-2": r"team-a/train-0 (8)\x1b[2J", "gpu-3": "", "gpu-4": ""}


def test_a_node_that_is_not_in_the_cluster_has_declared_gpus_only() -> None:
    world = World.of(base())
    del world.nodes["gpu-1"]
    (pool,) = pools(world, base())
    assert (pool.nodes[0].gpus, pool.nodes[0].note) == (
        ((State.DECLARED, 8),),
        "not in the cluster",
    )


def test_shared_gpus_count_once_and_say_how_many_containers_share_them() -> None:
    document = base()
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    document["devicePlugin"] = {"config": {"version": "v1", "sharing": sharing}}
    world = World.of(document)
    (pool,) = pools(world, document)
    assert {node.shares for node in pool.nodes} == {4}
    assert sum(totals(pool.nodes).values()) == 32


def test_gpus_that_the_stack_file_excludes_are_unhealthy() -> None:
    document = base()
    document["pools"][0]["unhealthyDevices"] = {"gpu-1": {"index": [0, 3]}}
    assert of(document) == {State.COMPUTED: 6, State.UNHEALTHY: 2}


def test_a_node_in_maintenance_has_no_other_state() -> None:
    document = {**base(), "maintenance": ["gpu-1"]}
    world = World.of(base())
    (pool,) = pools(world, document, {"gpu-1": "a100"})
    assert totals(pool.nodes)[State.MAINTENANCE] == 8
    assert totals(pool.nodes)[State.COMPUTED] == 24


def test_a_selector_that_matches_another_number_of_nodes_is_told() -> None:
    document = base()
    document["hosts"] = []
    document["pools"] = [{"name": "a", "selector": {"x": "y"}, "count": 2, "gpusPerNode": 8}]
    world = World.of(document)
    del world.nodes["a-1"]
    (pool,) = pools(world, document)
    assert "found 1 node;" in pool.problem
