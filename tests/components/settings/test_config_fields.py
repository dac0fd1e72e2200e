"""Fields of the stack file: addresses, names, ranges and host keys, and rules between sections."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.loading.loader import load
from tests.fixtures.documents import document, refused


def _hosts(**changed: Any) -> list[dict[str, Any]]:
    hosts: list[dict[str, Any]] = document()["hosts"]
    hosts[1] |= changed
    return hosts


@pytest.mark.parametrize(
    ("sections", "path", "wanted"),
    [
        ({"hosts": _hosts(name="gpu-1", node="gpu-2")}, "hosts[1].name", "each host name once"),
        ({"hosts": _hosts(node="gpu-1")}, "hosts[1].node", "one host for each node"),
        ({"hosts": _hosts(role="cpu-worker")}, "hosts[1].role", "outside the pools with GPUs"),
        ({"hosts": _hosts(node="cpu-1")}, "hosts[1].node", "in one of the pools"),
        ({"gpuOperator": {}}, "gpuOperator", "only the section of the chosen platform"),
        ({"driver": {"source": "operator"}}, "driver.source", "only with platform gpu-operator"),
        (
            {"platform": "gpu-operator", "devicePlugin": {}},
            "devicePlugin",
            "only the section of the chosen platform",
        ),
    ],
)
def test_parts_that_contradict_each_other_are_refused(
    sections: dict[str, Any], path: str, wanted: str
) -> None:
    (problem,) = refused(document(**sections))
    assert problem.place == path
    assert wanted in problem.wanted


def test_one_address_with_two_ports_is_two_hosts() -> None:
    assert len(load(document(hosts=_hosts(address="192.0.2.1", port=2222))).hosts) == 2


def test_a_host_may_stand_for_a_node_that_a_selector_finds() -> None:
    pools = [
        {"name": "l4", "selector": {"example.com/gpu": "l4"}, "count": 2, "gpusPerNode": 4},
    ]
    assert len(load(document(pools=pools)).hosts) == 2


def test_two_pools_with_the_same_selector_are_refused() -> None:
    pool = {"selector": {"example.com/gpu": "l4"}, "count": 2, "gpusPerNode": 4}
    problems = refused(document(pools=[{"name": "a", **pool}, {"name": "b", **pool}], hosts=[]))
    assert [problem.place for problem in problems] == ["pools[1].selector"]
