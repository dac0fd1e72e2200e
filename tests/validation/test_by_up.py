"""Tests of one's own, and nodes in maintenance, as a person types it: by the real engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from components.nodes.inspect import managed_by
from tests.e2e.project import Project, figures
from tests.validation import ways

pytestmark = pytest.mark.full

TEST = {
    "image": "example.com/nccl:1",
    "command": ["all_reduce_perf"],
    "gpus": 8,
    "pattern": "# Avg bus bandwidth : {figure}",
    "minimum": 350,
}


def declare(project: Project, **sections: Any) -> None:
    project.write({**ways.declared(project.stack, ways.WAYS["exclusive"]), **sections})


def test_a_test_of_ones_own_runs_where_it_is_asked_for_and_its_figures_stay(
    project: Project,
) -> None:
    declare(project, validation={"timeoutSeconds": 120, "tests": {"all-reduce": TEST}})
    assert "test all-reduce" not in project.command("up").stdout
    project.fault("gpu-2", "figure=360")
    done = project.command("validate", TESTS="all-reduce", JSON="1")
    assert done.returncode == 0, done.stdout
    line = "test all-reduce: simulated on 3 of 3 nodes: gpu-2 360, gpu-1 400, gpu-3 400"
    assert line in done.stdout
    answer = json.loads(done.stdout[done.stdout.index("\n{") :])
    measured = [(each["node"], each["figure"]) for each in answer["outputs"]["tests"]]
    assert measured == [("gpu-2", 360.0), ("gpu-1", 400.0), ("gpu-3", 400.0)]
    again = project.command("up")
    assert figures(again.stdout.strip().splitlines()[-1])[2] == 0
    assert line in again.stdout

    project.fault("gpu-2", "figure=340")
    failed = project.command("validate", TESTS="all-reduce", NODES="gpu-2")
    assert failed.returncode == 1
    assert "test all-reduce on node gpu-2: found 340, below 350" in failed.stdout
    project.fault("gpu-2")
    assert project.command("validate", TESTS="x").returncode == 1


def test_a_node_in_maintenance_is_left_as_it_is_and_every_table_says_so(project: Project) -> None:
    declare(project)
    project.up()
    before = project.request("GET", "nodes/gpu-3")
    declare(project, maintenance=["gpu-3"], validation={"timeoutSeconds": 121})
    done = project.command("up", JSON="1")
    assert done.returncode == 0, done.stdout
    assert "in maintenance, neither touched nor counted: gpu-3" in done.stdout
    assert "up: 16 of 16 GPUs simulated, 1 node in maintenance" in done.stdout
    assert "in maintenance" in next(x for x in done.stdout.splitlines() if "│ gpu-3 " in x)
    answer = json.loads(done.stdout[done.stdout.index("\n{") :])
    assert answer["outputs"]["maintenance"] == ["gpu-3"]
    assert answer["outputs"]["gpus"]["declared"] == 16
    after = project.request("GET", "nodes/gpu-3")
    for part in ("labels", "annotations"):
        assert after["metadata"][part] == before["metadata"][part]
    assert after["spec"] == before["spec"]
    assert managed_by(after, f"gpu-cluster-{project.stack}-a100")
