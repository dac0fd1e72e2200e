"""Tests of reports and evidence by `make`, with the real engine on a stack that is up."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.commands.evidence.forged import write_keys
from tests.fixtures.programs import run_program
from tests.proofs.e2e import snapshot
from tests.proofs.e2e.project import LIMIT, Json, Project, figures

pytestmark = pytest.mark.full

FAILS = "gpu-3"
"""Node whose simulated kernel fails."""
KEY = {"KEY": "evidence.key"}


@pytest.fixture(scope="module")
def total(project: Project) -> Iterator[int]:
    """Deploy the stack of the project, yield its number of GPUs, and destroy it at the end."""
    # `make` would rebuild the virtual environment if the list of packages were newer.
    os.utime(project.root / "requirements.lock", (0, 0))
    declared = sum(
        pool["gpusPerNode"] * (4 if pool["name"] == "a100" else 2)
        for pool in project.read()["pools"]
    )
    assert figures(project.up())[:2] == (declared, declared)
    yield declared
    assert project.command("destroy").returncode == 0


def make(
    project: Project, target: str, variables: Mapping[str, str], *, succeeds: bool = True
) -> str:
    """Run `make` as a person types it, check whether it succeeds, and return its output."""
    done = run_program(
        ["make", target, *(f"{name}={value}" for name, value in variables.items())],
        cwd=project.root,
        env=project.environment,
        stderr=subprocess.STDOUT,
        timeout=LIMIT,
    )
    assert (done.returncode == 0) is succeeds, done.stdout
    return done.stdout


def statement(project: Project) -> Json:
    """Return the statement in the evidence file, without its dates."""
    file = project.root / f"evidence-{project.stack}.json"
    found: Json = json.loads(b64decode(json.loads(file.read_text())["payload"]))
    for name in ("made", "until"):
        del found["predicate"][name]
    return found


def report(folder: Path) -> tuple[Any, Json]:
    """Return the two reports in a folder: JUnit's root element, and CTRF's results."""
    junit = ElementTree.fromstring((folder / "junit.xml").read_text())  # noqa: S314 - made here
    results: Json = json.loads((folder / "ctrf.json").read_text())["results"]
    return junit, results


def files(folder: Path) -> dict[str, str]:
    return {"JUNIT": str(folder / "junit.xml"), "CTRF": str(folder / "ctrf.json")}


@pytest.mark.promise(
    "`gpu-cluster validate --junit file --ctrf file` reports each GPU of the stack, and of a "
    "failed run each "
    "error with its node."
)
def test_make_validate_writes_reports_of_each_gpu_and_of_a_failure(
    project: Project, total: int, tmp_path: Path
) -> None:
    make(project, "validate", files(tmp_path))
    junit, results = report(tmp_path)
    names = {case.get("name") for case in junit.iter("testcase")}
    assert len(names) == len(list(junit.iter("testcase"))) == total
    assert all(str(name).startswith("GPU-") for name in names)
    assert results["summary"]["tests"] == results["summary"]["other"] == total

    project.fault(FAILS, "kernel-fails=0")
    try:
        shown = make(project, "validate", {"NODES": FAILS, **files(tmp_path)}, succeeds=False)
    finally:
        project.fault(FAILS)
    junit, results = report(tmp_path)
    messages = [str(failure.get("message")) for failure in junit.iter("failure")]
    assert any(FAILS in message and "exit code 1" in message for message in messages), shown
    assert results["summary"]["failed"] == len(messages)

    shown = make(project, "validate", {"JUNIT": str(tmp_path / "none" / "j.xml")}, succeeds=False)
    assert "JUNIT: found " in shown
    assert "whose folder does not exist" in shown
    make(project, "validate", files(tmp_path))
    assert report(tmp_path)[1]["summary"]["failed"] == 0


@pytest.mark.promise(
    "`gpu-cluster evidence` changes nothing and says the same of an unchanged stack each time; "
    "`gpu-cluster verify-evidence` accepts it until the stack file or a fact changes."
)
def test_evidence_of_a_deployed_stack_is_made_twice_and_verified(
    project: Project, total: int
) -> None:
    write_keys(project.root)
    before, state = snapshot.versions(project), project.checkpoint()
    made = []
    for _ in range(2):
        shown = make(project, "evidence", KEY)
        assert f"{total} GPUs, {total} simulated, until " in shown
        made.append(statement(project))
    assert made[0] == made[1]
    assert snapshot.versions(project) == before
    assert project.checkpoint() == state
    for secret in project.secrets:
        assert secret not in json.dumps(made[0])

    file = {"FILE": f"evidence-{project.stack}.json", "PUBLIC": "evidence.pub"}
    lab = {**file, "SIMULATED": "1"}
    shown = make(project, "verify-evidence", lab)
    assert f"verify-evidence: stack {project.stack}: {total} GPUs, {total} simulated" in shown
    assert "whose kernel was only simulated" in make(
        project, "verify-evidence", file, succeeds=False
    )
    content = project.file.read_text()
    try:
        project.edit(lambda cluster: cluster["pools"][0].update(labels={"example.com/a": "b"}))
        assert "digest of" in make(project, "verify-evidence", lab, succeeds=False)
        shown = make(project, "evidence", KEY, succeeds=False)
        assert "wanted: a stack that is deployed as its file declares" in shown
    finally:
        project.file.write_text(content)
    make(project, "verify-evidence", lab)
