"""Tests of Python programs that import the components: the example, and single components."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpu_cluster.cluster import (
    GpuCluster,
    GpuDevicePlugin,
    GpuGuardrails,
    GpuHosts,
    GpuOperator,
)
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Json, Project
from tests.proofs.reach.conftest import LANGUAGE, PART
from tests.proofs.reach.program import GPUS, Program, environment

pytestmark = pytest.mark.full

PROGRAM = """
import os

import pulumi

from gpu_cluster import cluster
from gpu_cluster.ssh.key_files import key_of_file

part = getattr(cluster, os.environ["TEST_PART"])
made = part(
    "part",
    cluster.GpuClusterArgs(
        settings=pulumi.Config("site").require_object("cluster"),
        kubeconfig=open(os.environ["CLUSTER_KUBECONFIG"]).read(),
        private_key=key_of_file(),
    ),
)
pulumi.export("nodes", made.nodes)
"""
"""A program that declares one part; the class comes from the environment."""
PARTS: dict[type[GpuCluster], str] = {
    GpuDevicePlugin: "device-plugin",
    GpuOperator: "gpu-operator",
    GpuGuardrails: "device-plugin",
    GpuHosts: "device-plugin",
}


def program(project: Project, folder: Path) -> Program:
    """Return a program whose folder has links to the imported components."""
    for name in ("components", "policies", "venv"):
        (folder / name).symlink_to(project.root / name)
    return Program(folder, project.stack, environment(project, folder.parent))


@pytest.mark.promise(
    "A program in Python imports the components, gives parts of a cluster the kubeconfig that "
    "another resource outputs, changes them and destroys them."
)
def test_the_example_deploys_changes_refreshes_and_destroys(
    project: Project, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    folder = tmp_path / "program"
    shutil.copytree(project.root / "examples" / "python", folder)
    main = folder / "__main__.py"
    main.write_text(main.read_text().replace("my-cluster", f"gpu-cluster-{project.stack}"))
    made, before = program(project, folder), snapshot.cluster(project)
    made.pulumi("stack", "init")
    made.pulumi("preview")
    assert snapshot.cluster(project) == before
    made.pulumi("up", "--yes")
    assert sum(node["simulated"] for node in made.output("nodes")) == GPUS
    made.pulumi("up", "--yes", "--expect-no-changes")
    labels = '"gpusPerNode": 8, "labels": {"example.com/team": "research"}'
    main.write_text(main.read_text().replace('"gpusPerNode": 8', labels))
    made.pulumi("up", "--yes")
    assert "example.com/team" in project.request("GET", "nodes/gpu-1")["metadata"]["labels"]
    made.pulumi("refresh", "--yes")
    made.pulumi("up", "--yes", "--expect-no-changes")
    made.pulumi("destroy", "--yes")
    assert snapshot.cluster(project) == before
    record_property(LANGUAGE, "python")
    record_property(PART, "GpuValidation")


@pytest.mark.promise(
    "Hosts, device plugin, operator and guardrails are each declared alone, and leave nothing "
    "behind."
)
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_a_part_comes_up_alone_stays_and_goes(
    project: Project,
    tmp_path: Path,
    part: type[GpuCluster],
    record_property: Callable[[str, object], None],
) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    runtime = {"name": "python", "options": {"virtualenv": "venv"}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "part", "runtime": runtime}))
    (folder / "__main__.py").write_text(PROGRAM)
    settings: Json = {**project.read(), "platform": PARTS[part]}
    if part is not GpuHosts:
        settings |= {"hosts": [], "pools": settings["pools"][:1]}
    if part is GpuGuardrails:
        settings["guardrails"] = {"mode": "audit"}
    file = folder / f"Pulumi.{project.stack}.yaml"
    file.write_text(yaml.safe_dump({"config": {"site:cluster": settings}}))
    made, before = program(project, folder), snapshot.cluster(project)
    made.environment["TEST_PART"] = part.__name__
    made.pulumi("stack", "init")
    made.pulumi("up", "--yes")
    made.pulumi("up", "--yes", "--expect-no-changes")
    made.pulumi("destroy", "--yes")
    assert snapshot.cluster(project) == before
    record_property(PART, part.__name__)
