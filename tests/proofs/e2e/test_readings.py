"""The comment about each edit, from a real preview, is one that readers understood."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_cluster.change.document import Document
from gpu_cluster.change.file import VARIABLE
from gpu_cluster.commands.forges.comment_markdown import Origin, is_silent, rendered
from tests.guard import own_name
from tests.proofs.e2e import claims, readings
from tests.proofs.e2e.claims import Workload
from tests.proofs.e2e.project import Json, Project, started

FOLDER = "GPU_CLUSTER_COMMENTS"
WORKLOADS = (
    Workload(name="train", node="gpu-1", gpus=8),
    Workload(name="web", node="gpu-2"),
    Workload(name="far", node="gpu-4", gpus=4),
)
AROUND: Json = {
    "metadata": {"name": "around"},
    "spec": {
        "nodeName": "gpu-2",
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "main",
                "image": "sample",
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
            }
        ],
    },
}
"""A pod that no controller creates again, and that takes GPUs around the scheduler."""
ORIGIN = Origin(commit="8c1f0a2b94d7", run="https://ci.example.com/runs/7")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    made = Project.make(tmp_path_factory.mktemp("readings"), own_name("readings"))
    with started(made):
        made.request("POST", "namespaces", body={"metadata": {"name": "claims"}})
        done = made.command("up")
        assert done.returncode == 0, done.stdout
        with claims.workloads(made, WORKLOADS):
            made.request("POST", claims.PODS, body=AROUND)
            try:
                yield made
            finally:
                made.request("DELETE", f"{claims.PODS}/around")


@pytest.mark.full
@pytest.mark.parametrize("name", readings.EDITS)
def test_the_comment_names_the_edit_and_what_stops_it(
    project: Project,
    tmp_path: Path,
    name: str,
    record_property: Callable[[str, object], None],
) -> None:
    first = project.read()
    try:
        project.edit(readings.EDITS[name], hardware=False)
        file = tmp_path / "change.json"
        done = project.command("preview", **{VARIABLE: str(file)})
        document = Document.read(file.read_bytes())
    finally:
        project.write(first, hardware=False)
    assert not is_silent(document), done.stdout
    # A stack file that does not load is refused before the state is read.
    assert document.edits or document.faults, done.stdout
    comment = readings.settled_text(rendered(document, ORIGIN), project.stack)
    if folder := os.environ.get(FOLDER):
        file = Path(folder, name.replace(" ", "-"))
        file.with_suffix(".md").write_text(comment, encoding="utf-8")
        said = readings.settled_text(done.stdout, project.stack)
        file.with_suffix(".txt").write_text(said, encoding="utf-8")
    for edit in document.edits or ():
        assert edit.path in comment
    if name == "guardrails that refuse":
        assert ("Pod", "around") in {(each.kind, each.name) for each in document.refused}
    record_property(readings.DIGEST, readings.digest_of(comment))


def test_an_answer_counts_only_for_the_comment_that_was_read() -> None:
    right = dict.fromkeys(readings.QUESTIONS, True)
    wrong = {**right, readings.QUESTIONS[0]: False}
    digests = {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
    answers = {
        "a": {"comment": "1", "readers": [right] * 3},
        "b": {"comment": "old", "readers": [right] * 3},
        "c": {"comment": "3", "readers": [right, right, wrong]},
        "d": {"comment": "4", "readers": [right] * 2},
    }
    assert readings.understood(digests, answers) == ["a"]


def test_each_recorded_answer_is_about_an_edit() -> None:
    assert len(readings.EDITS) == 24
    assert readings.recorded().keys() <= readings.EDITS.keys()
