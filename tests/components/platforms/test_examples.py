"""Each committed stack file can be deployed on the embedded cluster with all its GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.loading.loader import load
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project, figures, started
from tests.proofs.platform.chart_folders import ROOT

Json = dict[str, Any]
EXAMPLES = sorted(ROOT.glob("Pulumi.*.yaml"))


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.name)
def example(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """Yield a project with the example's cluster, without its hosts: all nodes exist already."""
    path: Path = request.param
    stack = f"example-{os.getpid()}"
    project = Project.make(tmp_path_factory.mktemp("example"), stack)
    declared: Json = yaml.safe_load(path.read_text())["config"]["gpu-cluster:cluster"]
    declared |= {"hosts": [], "kubernetes": {"context": f"gpu-cluster-{stack}"}}
    declared["validation"] = {**declared.get("validation", {}), "timeoutSeconds": 120}
    project.write(declared)
    with started(project):
        yield project


@pytest.mark.full
def test_a_committed_example_comes_up_with_all_its_gpus(example: Project) -> None:
    before = snapshot.cluster(example)
    gpus = sum(pool.gpus for pool in load(example.read()).pools)
    validated, declared, _ = figures(example.up())
    assert (validated, declared) == (gpus, gpus)
    assert figures(example.up()) == (gpus, gpus, 0)
    done = example.command("destroy")
    assert done.returncode == 0, done.stdout
    assert snapshot.cluster(example) == before
