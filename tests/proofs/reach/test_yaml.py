"""Tests of the component package in a Pulumi YAML program, with the real engine."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab import toolchain
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import Project
from tests.proofs.reach.conftest import LANGUAGE
from tests.proofs.reach.program import GPUS, Program, environment

pytestmark = pytest.mark.full


@pytest.fixture
def program(project: Project, tmp_path: Path) -> Program:
    """Copy the YAML example to a folder, and add the package by `pulumi package add`."""
    toolchain.ensure("pulumi-language-yaml")
    folder = tmp_path / "program"
    shutil.copytree(project.root / "examples" / "yaml", folder)
    made = Program(folder, project.stack, environment(project, tmp_path))
    made.pulumi("package", "add", str(project.root / "package"), stack=False)
    made.pulumi("stack", "init")
    made.edit(lambda program: properties(program).update(kubernetes={"context": context(project)}))
    return made


def context(project: Project) -> str:
    return f"gpu-cluster-{project.stack}"


def properties(program: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = program["resources"]["gpus"]["properties"]
    return found


def label(program: dict[str, Any]) -> None:
    properties(program)["pools"][0]["labels"] = {"example.com/team": "research"}


@pytest.mark.promise(
    "A Pulumi program in YAML adds the package of this repository, brings a GPU cluster up on a "
    "cluster whose kubeconfig another resource outputs, changes it and destroys it."
)
def test_a_program_in_yaml_deploys_changes_refreshes_and_destroys(
    project: Project, program: Program, record_property: Callable[[str, object], None]
) -> None:
    before, secrets = snapshot.cluster(project), project.secrets
    shown = [program.pulumi("preview")]
    assert "its kubeconfig is known as soon as its cluster exists" in shown[0]
    assert snapshot.cluster(project) == before

    shown.append(program.pulumi("up", "--yes"))
    assert sum(node["simulated"] for node in program.output("nodes")) == GPUS
    shown.append(program.pulumi("up", "--yes", "--expect-no-changes"))

    program.edit(label)
    shown.append(program.pulumi("up", "--yes"))
    labels = project.request("GET", "nodes/gpu-1")["metadata"]["labels"]
    assert labels["example.com/team"] == "research"
    shown.append(program.pulumi("refresh", "--yes"))
    shown.append(program.pulumi("up", "--yes", "--expect-no-changes"))

    state = program.pulumi("stack", "export")
    assert secrets
    for secret in secrets:
        assert secret not in "".join(shown) + state
    assert re.findall(re.escape(str(project.root)) + '[^"]*', state) == []

    program.pulumi("destroy", "--yes")
    assert snapshot.cluster(project) == before
    record_property(LANGUAGE, "yaml")
