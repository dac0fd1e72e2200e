"""What HAMi notes on nodes and pods is read, and nothing else that stands there."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.kubernetes.hami import (
    ALLOCATED,
    REGISTERED,
    shares_of_node,
    shares_of_pod,
    with_shares,
)
from gpu_cluster_lab.simulator.controller import hami
from gpu_cluster_lab.simulator.controller.devices import whole
from gpu_rules.kube.gpu_resources import HAMI_CORES, HAMI_MEMORY

Json = dict[str, Any]


def noted(key: str, text: str) -> Json:
    return {"metadata": {"name": "x", "annotations": {key: text}}}


def test_the_shares_of_all_containers_of_a_pod_are_added() -> None:
    first = (hami.Share("GPU-1", 3000, 30), hami.Share("GPU-2", 3000, 30))
    pod = noted(ALLOCATED, hami.encode((first, (), (hami.Share("GPU-1", 500, 5),))))
    assert shares_of_pod(pod) == {HAMI_MEMORY: 6500, HAMI_CORES: 65}
    assert shares_of_pod({"metadata": {}}) == {}


def test_a_node_has_the_memory_and_cores_of_its_healthy_gpus() -> None:
    gpus = whole("gpu-1", range(3))
    node = noted(REGISTERED, hami.registration(gpus, gpus[1:], {"deviceSplitCount": 4}))
    assert shares_of_node(node) == {HAMI_MEMORY: 2 * 81920, HAMI_CORES: 200}
    assert with_shares(node)["status"]["allocatable"] == {HAMI_MEMORY: "163840", HAMI_CORES: "200"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '[{"health": true}]',
        '[{"health": true, "devmem": "x", "devcore": 1}]',
        "[" * 5000,
        " " * 70_000,
    ],
)
def test_an_annotation_that_hami_did_not_write_counts_nothing(text: str) -> None:
    node = noted(REGISTERED, text)
    assert shares_of_node(node) == {}
    assert with_shares(node) == node
    assert shares_of_pod(noted(ALLOCATED, text)) == {}
