"""Fewer GPUs than a node advertises are refused, unless the run itself takes GPUs out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.components.change.world import World, base

Json = dict[str, Any]
SHARED = {"config": {"sharing": {"timeSlicing": {"resources": [
    {"name": "nvidia.com/gpu", "replicas": 4}
]}}}}  # fmt: skip


def pool(document: Json, **changes: Any) -> Json:
    document["pools"][0] |= changes
    return document


def faults(before: Json, after: Json, gpus: dict[str, int] | None = None) -> list[str]:
    world = World.of(before)
    for node, number in (gpus or {}).items():
        for kind in ("capacity", "allocatable"):
            world.nodes[node]["status"][kind]["nvidia.com/gpu"] = str(number)
    return [fault.text for fault in world.change(after).faults]


def test_fewer_gpus_per_node_than_the_nodes_advertise_are_refused() -> None:
    (fault,) = faults(base(), pool(base(), gpusPerNode=4))
    assert fault.startswith(
        "pool a100: found 4 GPUs per node declared, while gpu-[1-4] advertise 8"
    )


def test_a_missing_gpu_that_the_plugin_still_counts_is_refused() -> None:
    missing = pool(base(), unhealthyDevices={"gpu-2": {"missing": 1}})
    (fault,) = faults(base(), missing)
    assert "7 GPUs per node declared, while gpu-2 advertises 8" in fault
    assert "delete the pod of the node's device plugin" in fault
    assert faults(base(), missing, {"gpu-2": 7}) == []


@pytest.mark.parametrize(
    "form", [{"index": [3]}, {"uuid": [f"GPU-{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}"]}]
)
def test_gpus_that_the_run_takes_out_are_no_fault(form: Json) -> None:
    out = pool(base() | {"reboot": {"when": "required"}}, unhealthyDevices={"gpu-2": form})
    assert faults(base() | {"reboot": {"when": "required"}}, out) == []


def test_a_gpu_left_out_by_index_restarts_the_plugin_of_each_node() -> None:
    # The release's pods avoid the node from then on, so their template changes. Until their restart
    # has ended, this node has no plugin.
    out = pool(base(), unhealthyDevices={"gpu-2": {"index": [3]}})
    (gap,) = World.of(base()).change(out).gaps
    assert (len(gap.nodes), gap.at_most, gap.evicts) == (4, 16, False)
    (back,) = World.of(out).change(base()).gaps
    assert (len(back.nodes), back.at_most) == (4, 16)
    assert World.of(out).change(out).gaps == ()


def test_another_gpu_left_out_by_index_restarts_the_plugin_of_its_node_only() -> None:
    out = pool(base(), unhealthyDevices={"gpu-2": {"index": [3]}})
    other = pool(base(), unhealthyDevices={"gpu-2": {"index": [5]}})
    (gap,) = World.of(out).change(other).gaps
    assert (gap.nodes, gap.gpus, gap.evicts) == (("gpu-2",), 7, False)


def test_shares_count_per_gpu() -> None:
    shared = base() | {"devicePlugin": SHARED}
    assert len(faults(shared, pool(shared | base() | {"devicePlugin": SHARED}, gpusPerNode=4))) == 1
    assert faults(shared, base()) == []
    assert faults(base(), shared) == []


def test_more_gpus_are_no_fault_before_they_are_there() -> None:
    bare = base() | {"hosts": []}
    assert faults(pool(bare | {"pools": base()["pools"]}, gpusPerNode=4), bare) == []
