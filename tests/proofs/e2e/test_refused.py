"""Runs that are refused: nothing of the stack, its hosts and its cluster is changed before.

Each run is `pulumi up --skip-preview`, so the gate is that of the run itself.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import run_program
from tests.guard import own_name
from tests.proofs.e2e import gate, snapshot
from tests.proofs.e2e.project import LIMIT, Project, figures, started
from tests.proofs.e2e.refusals import BLOCKERS, ELSEWHERE, LISTED, REFUSALS, WARNING

TESTS = Path(__file__).parents[2]
HOSTS = ("gpu-1", "gpu-2")


def everything(project: Project, roots: Mapping[str, Path]) -> dict[str, Any]:
    """Return all that a refused run must not change: resources of the state, objects and files."""
    text = re.sub(r'"ciphertext":"[^"]*"', '"ciphertext":""', project.checkpoint())
    latest = json.loads(text)["checkpoint"]["latest"]
    return {
        "state": {each["urn"]: each.get("inputs") for each in latest["resources"]},
        "objects": snapshot.versions(project),
        "files": {name: snapshot.host(root) for name, root in roots.items()},
    }


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with started(Project.make(tmp_path_factory.mktemp("refused"), own_name("refused"))) as made:
        assert figures(made.up())[:2] == (32, 32)
        yield made


@pytest.fixture
def project(deployed: Project) -> Iterator[Project]:
    kept = deployed.read()
    yield deployed
    deployed.write(kept, hardware=False)


def test_each_function_that_stops_a_run_has_a_row() -> None:
    rows = {refusal.judge for refusal in REFUSALS.values()} - {"", BLOCKERS, LISTED}
    assert sorted(rows | {*ELSEWHERE, *WARNING}) == sorted(gate.judges())
    assert all((TESTS / path).is_file() for path in ELSEWHERE.values())


@pytest.mark.full
@pytest.mark.promise(
    "A run that its own settings or inspection refuse changes nothing: no resource of the "
    "stack, no object of the cluster, no file of a host."
)
@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_run_changes_nothing(project: Project, name: str) -> None:
    refusal = REFUSALS[name]
    # A faulty stack file has no environment, and a host whose SSH server is stopped no root.
    variables = {**project.shell_environment(), **refusal.variables(project)}
    roots = {name: project.host_root(name) for name in HOSTS}
    with refusal.world(project):
        before = everything(project, roots)
        project.edit(refusal.edit, hardware=False)
        done = run_program(
            ["pulumi", "up", "--yes", "--skip-preview", "--non-interactive", "--color", "never"],
            cwd=project.root,
            env=variables,
            stderr=subprocess.STDOUT,
            timeout=LIMIT,
        )
        after = everything(project, roots)
    assert done.returncode != 0, done.stdout
    assert re.search(refusal.says, done.stdout), done.stdout
    changed = {
        f"{part} {key}"
        for part in before
        for key in before[part].keys() | after[part].keys()
        if before[part].get(key) != after[part].get(key)
    }
    assert not changed, f"{changed}\n{done.stdout}"
