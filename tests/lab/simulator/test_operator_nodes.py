"""Labels and annotations that the simulated GPU Operator writes on nodes.

Each case follows NVIDIA/gpu-operator v24.3.0, controllers/state_manager.go, and v26.7.0,
controllers/nodelabeling_controller.go. `make test-real` compares the same labels and annotations
with those of the real operator v24.3.0.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster_lab.simulator.controller import operands
from gpu_cluster_lab.simulator.controller.operator_nodes import (
    GPU_LABELS,
    UPGRADE,
    UPGRADE_STATE,
    is_divisible,
    patch,
)

FOUND = {GPU_LABELS[0]: "true"}
PRESENT = {operands.PRESENT: "true"}
STATES = dict.fromkeys(operands.STATE_LABELS, "true")
MANAGER = operands.DEPLOY + "mig-manager"
OFF = {operands.OPERANDS_OFF: "false"}


def changed(labels: dict[str, str], **spec: Any) -> Any:
    found = patch({"labels": labels}, {"spec": spec})
    return found["labels"] if found else {}


def test_a_node_with_gpus_gets_the_labels_of_all_operands() -> None:
    assert changed(FOUND) == PRESENT | STATES
    assert changed(FOUND | PRESENT | STATES) == {}
    assert changed({}) == {}


def test_a_value_that_is_there_is_honoured_and_an_empty_one_is_not() -> None:
    kept, empty = operands.STATE_LABELS[:2]
    found = changed(FOUND | PRESENT | STATES | {kept: "false", empty: ""})
    assert found == {empty: "true"}


def test_a_node_that_lost_its_gpus_loses_all_operands() -> None:
    gone: dict[str, Any] = dict.fromkeys((*operands.STATE_LABELS, MANAGER))
    found = changed(PRESENT | STATES | {MANAGER: "true"})
    assert found == gone | {operands.PRESENT: "false"}


def test_operands_that_are_off_leave_a_node() -> None:
    assert changed(FOUND | OFF) == PRESENT
    assert changed(FOUND | PRESENT | STATES | OFF) == dict.fromkeys(operands.STATE_LABELS)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ({}, False),
        ({"nvidia.com/mig.capable": "true"}, True),
        ({"nvidia.com/mig.capable": "false", "nvidia.com/gpu.product": "A100"}, False),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, True),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, False),
        ({"nvidia.com/mig.capable": "true", "nvidia.com/vgpu.host-driver-version": "16"}, False),
    ],
)
def test_mig_manager_comes_to_nodes_whose_gpus_can_be_divided(
    labels: dict[str, str], wanted: bool
) -> None:
    assert is_divisible(labels) == wanted
    assert (MANAGER in changed(FOUND | labels)) == wanted


def test_gpus_without_a_layout_are_not_divided() -> None:
    divisible = FOUND | PRESENT | STATES | {MANAGER: "true", "nvidia.com/mig.capable": "true"}
    default = {"config": {"default": "all-disabled"}}
    wanted = {operands.MIG_LAYOUT: "all-disabled"}
    assert changed(divisible, migManager=default) == wanted
    assert changed(divisible, migManager={**default, "enabled": False}) == {}
    assert changed(divisible | {operands.MIG_LAYOUT: "mine"}, migManager=default) == {}


def test_nodes_say_whether_their_drivers_are_upgraded() -> None:
    labels = FOUND | PRESENT | STATES
    automatic: Any = {"driver": {"upgradePolicy": {"autoUpgrade": True}}}
    node: Any = {"labels": labels}
    marked: Any = {"labels": labels, "annotations": {UPGRADE: "true"}}
    found = patch(node, {"spec": automatic})
    assert found == {"labels": {}, "annotations": {UPGRADE: "true"}}
    assert patch(marked, {"spec": automatic}) is None
    sandboxed = {**automatic, "sandboxWorkloads": {"enabled": True}}
    for spec in ({}, sandboxed):
        found = patch(marked, {"spec": spec})
        assert found == {"labels": {}, "annotations": {UPGRADE: None}}


def test_a_driver_that_runs_as_declared_is_said_to_be_upgraded() -> None:
    # Source: NVIDIA/k8s-operator-libs, pkg/upgrade/upgrade_state.go, ProcessDoneOrUnknownNodes
    node: Any = {"labels": FOUND | PRESENT | STATES, "annotations": {UPGRADE: "true"}}
    automatic: Any = {"spec": {"driver": {"upgradePolicy": {"autoUpgrade": True}}}}
    assert patch(node, automatic) is None
    done = {"labels": {UPGRADE_STATE: "upgrade-done"}, "annotations": {}}
    assert patch(node, automatic, driver_runs=True) == done
    node["labels"][UPGRADE_STATE] = "drain-required"
    assert patch(node, automatic, driver_runs=True) is None
    assert patch(node, {"spec": {}}, driver_runs=True) == {
        "labels": {UPGRADE_STATE: None},
        "annotations": {UPGRADE: None},
    }
