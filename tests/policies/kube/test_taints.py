"""Tolerations tolerate the taints that Kubernetes' scheduler finds tolerated."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.kube.taints import NodeTaint, tolerates

GPU = NodeTaint("nvidia.com/gpu", "present")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "example.com/gpu", "operator": "Exists"}, False),
        ({"key": "nvidia.com/gpu", "value": "present"}, True),
        ({"key": "nvidia.com/gpu", "value": "true"}, False),
        ({"key": "nvidia.com/gpu"}, False),
        ({"key": "nvidia.com/gpu", "operator": "", "value": "present", "effect": ""}, True),
        ({"value": "present"}, True),
        ({}, False),
        ({"operator": "In", "value": "present"}, False),
    ],
)
def test_a_toleration_matches_effect_key_and_value(
    toleration: dict[str, Any], tolerated: bool
) -> None:
    assert tolerates(toleration, GPU) is tolerated
    assert GPU.is_tolerated([{"key": "other"}, toleration]) is tolerated


@pytest.mark.parametrize(
    ("operator", "bound", "value", "tolerated"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "-6", True),
        ("Lt", "5", "5", False),
        ("Lt", "0", "-1", True),
        ("Lt", "05", "1", False),
        ("Lt", "5", "+1", False),
        ("Lt", "5", "-0", False),
        ("Lt", "5", "", False),
        ("Lt", "5", "one", False),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        ("Gt", "9223372036854775806", "9223372036854775808", False),
        ("Gt", "-9223372036854775809", "1", False),
    ],
)
def test_values_are_compared_as_whole_numbers(
    operator: str, bound: str, value: str, tolerated: bool
) -> None:
    toleration = {"key": "size", "operator": operator, "value": bound}
    assert tolerates(toleration, NodeTaint("size", value)) is tolerated


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("nvidia.com/gpu=present:NoSchedule", GPU),
        ("batch:NoExecute", NodeTaint("batch", "", "NoExecute")),
        ("a:b=c:NoExecute", NodeTaint("a:b", "c", "NoExecute")),
    ],
)
def test_a_taint_is_written_and_parsed_in_one_form(text: str, taint: NodeTaint) -> None:
    assert (str(taint), NodeTaint.parse(text)) == (text, taint)
    assert NodeTaint.of({"key": taint.key, "value": taint.value, "effect": taint.effect}) == taint


def test_a_part_that_an_object_lacks_is_empty() -> None:
    assert NodeTaint.of({"key": "a"}) == NodeTaint("a", "", "")


def test_only_key_and_effect_identify_a_taint() -> None:
    assert GPU.is_same(NodeTaint("nvidia.com/gpu", "true"))
    assert not GPU.is_same(NodeTaint("nvidia.com/gpu", "present", "NoExecute"))
    assert not GPU.is_same(NodeTaint("nvidia.com/other", "present"))


@pytest.mark.parametrize(
    ("effect", "hard"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False)]
)
def test_a_preference_keeps_no_pod_off(effect: str, hard: bool) -> None:
    assert NodeTaint("a", effect=effect).is_hard is hard
