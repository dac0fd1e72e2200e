"""Test of a user's own program that imports `GpuCluster` and also creates the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Json, Project, started
from tests.proofs.reach.program import Program

pytestmark = pytest.mark.slow

NAME = "Any.name_1"
GPUS = 32
PROGRAM = """
import os

import pulumi
import pulumi_command as command

from gpu_cluster.cluster import GpuCluster, GpuClusterArgs

made = command.local.Command(
    "made",
    create='cat "$MADE"',
    environment={"MADE": os.environ["TEST_MADE"]},
    opts=pulumi.ResourceOptions(additional_secret_outputs=["stdout"]),
)
site = GpuCluster(
    os.environ["TEST_NAME"],
    GpuClusterArgs(
        settings=pulumi.Config("site").require_object("cluster"), kubeconfig=made.stdout
    ),
)
pulumi.export("nodes", site.nodes)
pulumi.export("charts", site.charts)
"""
"""A program in which another resource outputs the kubeconfig; the first preview can't know it."""
UNKNOWN = f"{NAME}: its kubeconfig is known as soon as its cluster exists"


class Declared(Program):
    """A user's own Pulumi program, whose stack file declares the cluster."""

    def declare(self, cluster: Json) -> None:
        """Write the configuration into the stack file; keep what Pulumi wrote there."""
        file = self.folder / f"Pulumi.{self.stack}.yaml"
        kept = yaml.safe_load(file.read_text()) if file.exists() else {}
        file.write_text(yaml.safe_dump({**(kept or {}), "config": {"site:cluster": cluster}}))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Start an embedded cluster whose context is in no kubeconfig of this machine."""
    made = Project.make(tmp_path_factory.mktemp("public"), own_name("public"))
    made.write({**made.declared(), "hosts": []})
    with started(made):
        yield made


@pytest.fixture
def program(project: Project, tmp_path: Path) -> Declared:
    folder = tmp_path / "program"
    folder.mkdir()
    # The Kubernetes plugin writes a given kubeconfig to a temporary file, and leaves it.
    (folder / "tmp").mkdir()
    for name in ("components", "policies", "venv"):
        (folder / name).symlink_to(project.root / name)
    runtime = {"name": "python", "options": {"virtualenv": "venv"}}
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "site", "runtime": runtime}))
    (folder / "__main__.py").write_text(PROGRAM)
    environment = {
        **project.shell_environment(),
        "GPU_CHARTS": str(project.root / "embedded" / "gpu_cluster_lab" / "simulator" / "charts"),
        "KUBECONFIG": str(tmp_path / "none"),
        "TEST_MADE": str(project.kubeconfig),
        "TEST_NAME": NAME,
        "TMPDIR": str(folder / "tmp"),
    }
    environment.pop("PULUMI_STACK", None)
    made = Declared(folder, project.stack, environment)
    made.pulumi("stack", "init")
    made.declare({**project.declared(), "hosts": []})
    return made


@pytest.mark.promise(
    "A program of one's own gives `GpuCluster` the kubeconfig of a cluster that the same run "
    "makes; it is kept secret, and nothing reaches another cluster."
)
def test_a_cluster_of_the_same_program_comes_up_stays_and_goes(
    project: Project, program: Program
) -> None:
    before, secrets = snapshot.cluster(project), project.secrets
    assert secrets
    shown = [program.pulumi("preview")]
    assert UNKNOWN in shown[0]
    assert f"{NAME}-gpu-platform-release" in shown[0]
    assert snapshot.cluster(project) == before

    shown.append(program.pulumi("up", "--yes"))
    nodes = json.loads(program.pulumi("stack", "output", "nodes", "--json"))
    assert sum(node["simulated"] for node in nodes) == GPUS

    shown.append(program.pulumi("preview", "--expect-no-changes"))
    shown.append(program.pulumi("up", "--yes", "--expect-no-changes"))
    assert UNKNOWN not in shown[-1] + shown[-2]

    project.request(
        "PATCH",
        "nodes/gpu-3",
        content_type="application/merge-patch+json",
        body={"metadata": {"labels": {"nvidia.com/gpu": None}}},
    )
    shown.append(program.pulumi("preview"))
    assert "drift: node gpu-3: label nvidia.com/gpu true → absent" in shown[-1]
    shown.append(program.pulumi("up", "--yes"))
    assert "nvidia.com/gpu" in project.request("GET", "nodes/gpu-3")["metadata"]["labels"]

    state = program.pulumi("stack", "export")
    for secret in secrets:
        assert secret not in "".join(shown) + state

    shown.append(program.pulumi("destroy", "--yes"))
    assert snapshot.cluster(project) == before
