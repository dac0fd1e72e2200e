"""Test of a user's own program that imports `GpuCluster` and also creates the cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import toolchain
from tests.guard import own_name
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import LIMIT, Json, Project, started

pytestmark = pytest.mark.slow

NAME = "Any.name_1"
GPUS = 32
PROGRAM = """
import os

import pulumi
import pulumi_command as command

from components.cluster import GpuCluster, GpuClusterArgs

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


@dataclass
class Program:
    """A user's own Pulumi program in a separate folder, with links to this project's components."""

    folder: Path
    stack: str
    environment: dict[str, str]

    def pulumi(self, *arguments: str, succeeds: bool = True) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never", "--stack", self.stack],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert (done.returncode == 0) is succeeds, done.stdout
        return done.stdout

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
def program(project: Project, tmp_path: Path) -> Program:
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
        "GPU_CHARTS": str(project.root / "lab" / "simulator" / "charts"),
        "KUBECONFIG": str(tmp_path / "none"),
        "TEST_MADE": str(kubeconfig(project)),
        "TEST_NAME": NAME,
        "TMPDIR": str(folder / "tmp"),
    }
    environment.pop("PULUMI_STACK", None)
    made = Program(folder, project.stack, environment)
    made.pulumi("stack", "init")
    made.declare({**project.declared(), "hosts": []})
    return made


def kubeconfig(project: Project) -> Path:
    return toolchain.cache_dir() / "embedded" / project.stack / "kubeconfig"


def secrets_of(path: Path) -> list[str]:
    """Return the secret values in a kubeconfig: keys and tokens."""
    kept = {"client-key-data", "token", "password"}
    users = yaml.safe_load(path.read_text())["users"]
    return [value for user in users for key, value in user["user"].items() if key in kept]


@pytest.mark.promise(
    "A program of one's own gives `GpuCluster` the kubeconfig of a cluster that the same run "
    "makes; it is kept secret, and nothing reaches another cluster."
)
def test_a_cluster_of_the_same_program_comes_up_stays_and_goes(
    project: Project, program: Program
) -> None:
    before, secrets = snapshot.cluster(project), secrets_of(kubeconfig(project))
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
