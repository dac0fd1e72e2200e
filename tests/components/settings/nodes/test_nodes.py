"""Ranges of nodes, taints and pools, as a stack file may write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from gpu_cluster.change.names import listed
from gpu_cluster.settings.nodes.node_range import NODE_LIMIT, expand, ranges
from gpu_cluster.settings.nodes.taint import Taint
from tests.fixtures.documents import document, refused


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("gpu-1", ["gpu-1"]),
        ("gpu-[1-3]", ["gpu-1", "gpu-2", "gpu-3"]),
        ("gpu-[08-11]", ["gpu-08", "gpu-09", "gpu-10", "gpu-11"]),
        ("gpu-[0-2]", ["gpu-0", "gpu-1", "gpu-2"]),
        ("gpu-[1,3-4].example.com", [f"gpu-{n}.example.com" for n in (1, 3, 4)]),
        ("r[1-2]-n[1-2]", ["r1-n1", "r1-n2", "r2-n1", "r2-n2"]),
    ],
)
def test_a_range_stands_for_these_names(pattern: str, names: list[str]) -> None:
    assert list(expand(pattern)) == names


def test_a_range_of_800_keeps_its_width() -> None:
    names = expand("gpu-[001-800]")
    assert (len(names), names[0], names[-1]) == (800, "gpu-001", "gpu-800")


@pytest.mark.parametrize(
    "pattern",
    [
        *("gpu-[4-1]", "gpu-[1-4", "gpu-1-4]", "gpu-[]", "gpu-[a-c]", "gpu-[1-]", "gpu-[-4]"),
        *("gpu-[1--4]", "gpu-[01-100]", "gpu-[1-08]", "GPU-[1-4]", "gpu_[1-4]", "[[1-2]]", ""),
        *("gpu-[1-999999999]", "a[1-5000]b[1-5000]", "gpu-[1-2]-", "-[1-2]", "gpu 1"),
    ],
)
def test_a_malformed_range_is_refused(pattern: str) -> None:
    with pytest.raises(PydanticCustomError):
        expand(pattern)


@given(st.integers(0, 900), st.integers(1, 300), st.booleans())
def test_a_range_is_every_name_from_its_first_to_its_last(
    first: int, length: int, padded: bool
) -> None:
    last = first + length - 1
    width = len(str(last)) if padded else 1
    names = [f"gpu-{number:0{width}d}" for number in range(first, last + 1)]
    assert list(expand(f"gpu-[{first:0{width}d}-{last}]")) == names


def test_a_pool_may_have_as_many_nodes_as_kubernetes_supports_and_no_more() -> None:
    assert len(expand(f"n-[1-{NODE_LIMIT}]")) == NODE_LIMIT
    pools = [{"name": "a", "nodes": ["n-[1-4000]", "m-[1-1001]"], "gpusPerNode": 1}]
    (problem,) = refused(document(pools=pools, hosts=[]))
    assert problem.found == "5001 nodes"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("nvidia.com/gpu=present:NoSchedule", ("nvidia.com/gpu", "present", "NoSchedule")),
        ("dedicated:NoExecute", ("dedicated", "", "NoExecute")),
        ("dedicated=:PreferNoSchedule", ("dedicated", "", "PreferNoSchedule")),
    ],
)
def test_a_taint_is_read_from_its_text(text: str, parts: tuple[str, str, str]) -> None:
    taint = Taint.model_validate(text)
    assert (taint.key, taint.value, taint.effect) == parts
    assert Taint.model_validate(str(taint)) == taint


def test_the_node_controllers_taints_are_refused() -> None:
    pools = document()["pools"]
    pools[0]["taints"] = ["node.kubernetes.io/unschedulable:NoSchedule"]
    (problem,) = refused(document(pools=pools))
    assert problem.place == "pools[0].taints[0].key"


@given(st.permutations([f"gpu-{number}" for number in range(1, 13)]))
def test_names_are_ranges_in_natural_order_whatever_order_they_come_in(names: list[str]) -> None:
    assert list(ranges(names)) == ["gpu-[1-12]"]
    assert listed(names) == "gpu-1..12"


def test_nodes_that_selectors_count_are_nodes_of_the_cluster_too() -> None:
    pools = [
        {"name": "a", "nodes": ["gpu-[1-4000]"], "gpusPerNode": 8},
        {"name": "b", "selector": {"team": "b"}, "count": 1001, "gpusPerNode": 8},
    ]
    (problem,) = refused(document(pools=pools))
    assert problem.found == "5001 nodes"
