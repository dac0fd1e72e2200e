"""A pod's node selector and node affinity admit the nodes that the scheduler admits."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_rules.kube.node_selectors import is_node_selected, meets


@pytest.mark.parametrize(
    ("value", "operator", "wanted", "met"),
    [
        ("a", "In", ["a", "b"], True),
        ("c", "In", ["a", "b"], False),
        (None, "In", ["a"], False),
        ("a", "NotIn", ["a"], False),
        (None, "NotIn", ["a"], True),
        ("", "Exists", [], True),
        (None, "Exists", [], False),
        (None, "DoesNotExist", [], True),
        ("", "DoesNotExist", [], False),
        ("8", "Gt", ["4"], True),
        ("4", "Gt", ["4"], False),
        ("04", "Lt", ["+5"], True),
        ("4", "Lt", ["4"], False),
        ("1_0", "Gt", ["4"], False),
        (" 8", "Gt", ["4"], False),
        ("8", "Gt", ["4", "5"], False),
        ("8", "Gt", [], False),
        (None, "Lt", ["4"], False),
        ("9223372036854775807", "Gt", ["4"], True),
        ("9223372036854775808", "Gt", ["4"], False),
        ("-9223372036854775808", "Lt", ["4"], True),
        ("-9223372036854775809", "Lt", ["4"], False),
        ("8", "Near", ["8"], False),
    ],
)
def test_a_requirement_is_met(
    value: str | None, operator: str, wanted: list[str], met: bool
) -> None:
    assert meets(value, operator, wanted) is met


def requiring(*terms: Any, **spec: Any) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}, **spec}


ZONE_A = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
ZONE_B = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}
NAME = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]}


@pytest.mark.parametrize(
    ("spec", "selected"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"nodeSelector": {"rack": "a"}}, False),
        ({"affinity": {"podAffinity": {}}}, True),
        (requiring(NAME), True),
        (requiring({**NAME, **ZONE_B}, NAME), True),
        (requiring(), False),
        (requiring({}), False),
        (requiring(ZONE_A), True),
        (requiring(ZONE_B), False),
        (requiring(ZONE_B, ZONE_A), True),
        (requiring({**ZONE_B, **NAME}), False),
        (requiring({**ZONE_A, **NAME}), True),
        (requiring(NAME, nodeSelector={"zone": "b"}), False),
    ],
)
def test_a_node_is_selected(spec: dict[str, Any], selected: bool) -> None:
    node = {"metadata": {"name": "gpu-1", "labels": {"zone": "a"}}}
    assert is_node_selected(spec, node) is selected
