"""User-defined validation tests on the embedded cluster: results by node, slowest first."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.validation import tests, validation
from gpu_cluster.validation.selection import ASKED, TESTS
from gpu_cluster_lab.simulator import set_fault
from tests.proofs.simulator.running import CLUSTER, Json
from tests.proofs.simulator.validating import Stack, given

pytestmark = pytest.mark.full

TWO = {
    "all-reduce": {
        "image": "example.com/nccl:1",
        "command": ["all_reduce_perf", "-g", "8"],
        "gpus": 8,
        "pattern": "# Avg bus bandwidth : {figure}",
        "minimum": 350,
        "timeoutSeconds": 30,
    },
    "diag": {"image": "example.com/dcgm:1", "command": ["diag"], "gpus": 1, "timeoutSeconds": 30},
}


def run(**changes: Any) -> list[Json]:
    cluster = given("device-plugin", validation={"tests": TWO})
    result = asyncio.run(
        tests.measure(replace(resolve(cluster, "test").validation.measuring, **changes))
    )
    outcomes: list[Json] = result["tests"]
    return outcomes


@pytest.fixture
def ready(stack: Stack) -> Stack:
    for node in ("gpu-1", "gpu-2", "gpu-3"):
        stack.cluster.wait_gpus(node, "8", "8")
    return stack


def test_figures_are_kept_the_slowest_first_and_run_only_where_asked(
    ready: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run() == []
    monkeypatch.setenv(TESTS, "all-reduce,diag")
    set_fault(CLUSTER, "gpu-2", "figure=360")
    ready.cluster.hold("train", "gpu-3", 1)
    first = run()
    said = [(each["test"], each["node"], each["figure"], bool(each["skipped"])) for each in first]
    assert said == [
        ("all-reduce", "gpu-2", 360.0, False),
        ("all-reduce", "gpu-1", 400.0, False),
        ("all-reduce", "gpu-3", None, True),
        ("diag", "gpu-1", None, False),
        ("diag", "gpu-2", None, False),
        ("diag", "gpu-3", None, False),
    ]
    assert "7 GPUs free; wanted: 8; default/train (Running, holds 1)" in first[2]["skipped"]
    assert all(each["simulated"] for each in first if not each["skipped"])
    assert ready.leftovers() == []

    # Results are kept for nodes and tests that a run doesn't measure again.
    monkeypatch.setenv("PULUMI_COMMAND_STDOUT", json.dumps({"tests": first}))
    monkeypatch.setenv(ASKED, "gpu-1")
    set_fault(CLUSTER, "gpu-1", "figure=351")
    again = {(each["test"], each["node"]): each for each in run()}
    assert again["all-reduce", "gpu-1"]["figure"] == 351
    assert again["all-reduce", "gpu-2"] == first[0]
    monkeypatch.setenv(TESTS, "x")
    with pytest.raises(ClusterError, match=r"GPU_CLUSTER_TESTS: found x; wanted: of all-reduce"):
        run()


def test_a_figure_below_the_minimum_names_node_figure_and_minimum(
    ready: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TESTS, "all-reduce")
    set_fault(CLUSTER, "gpu-2", "figure=349")
    set_fault(CLUSTER, "gpu-3", "kernel-fails=0")
    with pytest.raises(ClusterError) as caught:
        run()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("test all-reduce on node gpu-3: found exit code 1; its last line: ")
    assert lines[1].startswith("test all-reduce on node gpu-2: found 349, below 350; wanted: ")
    assert "found 2 of 3 tests failed" in lines[2]
    assert ready.leftovers() == []
    # A failed user-defined test doesn't affect the validation of GPUs.
    set_fault(CLUSTER, "gpu-2")
    set_fault(CLUSTER, "gpu-3")
    assert asyncio.run(validation.validate(ready.document))["nodes"]
