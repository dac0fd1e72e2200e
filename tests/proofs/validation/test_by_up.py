"""User-defined validation tests and nodes in maintenance, tested by a user's commands."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from gpu_cluster.kubernetes.api import Client
from gpu_cluster.nodes.inspect import managed_by
from tests.proofs.e2e.project import Project, figures
from tests.proofs.validation import ways

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
    assert failed.stdout.strip().splitlines()[-1].startswith("validate: failed after ")
    project.fault("gpu-2")
    assert project.command("validate", TESTS="x").returncode == 1


def test_a_node_in_maintenance_is_left_as_it_is_and_every_table_says_so(project: Project) -> None:
    declare(project)
    project.up()
    before = project.request("GET", "nodes/gpu-3")
    declare(project, maintenance=["gpu-3"], validation={"timeoutSeconds": 121})
    done = project.command("up", JSON="1")
    assert done.returncode == 0, done.stdout
    assert "in maintenance, so left alone: gpu-3" in done.stdout
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


HOLDER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "holder"},
    "spec": {
        "nodeSelector": {"kubernetes.io/hostname": "gpu-2"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "containers": [
            {
                "name": "train",
                "image": "registry.example.com/train:1",
                "resources": {"limits": {"nvidia.com/gpu": "1"}},
            }
        ],
    },
}


@pytest.mark.promise("Who holds a GPU that is deferred is named, with what to do.")
def test_the_holder_of_a_deferred_gpu_is_named_by_validate_and_in_previews(
    project: Project,
) -> None:
    declare(project)
    project.up()
    project.request("POST", "namespaces/default/pods", body=HOLDER)

    async def bound(client: Client) -> None:
        async with asyncio.timeout(120):
            while True:
                pod = await client.request("GET", "namespaces/default/pods/holder")
                if pod["spec"].get("nodeName"):
                    return
                await asyncio.sleep(0.2)

    project.ask(bound)
    done = project.command("validate", NODES="gpu-2")
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"^deferred: node gpu-2: 1 GPU, held by default/holder .*gpu-cluster validate "
        rf"STACK={project.stack} NODES=gpu-2$",
        done.stdout,
        re.M,
    ), done.stdout
    assert done.stdout.strip().splitlines()[-1].startswith("validate: ")
    preview = project.command("preview")
    assert "default/holder" in preview.stdout, preview.stdout
    project.request("DELETE", "namespaces/default/pods/holder")
    project.command("validate", NODES="gpu-2")
    assert "default/holder" not in project.command("preview").stdout
