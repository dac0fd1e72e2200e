"""The verb preview reports faults of the stack file in the change document, without engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.change.document import Document, Outcome
from gpu_cluster.change.edits import recorded_settings
from gpu_cluster.change.file import VARIABLE
from gpu_cluster.change.lines import StackFile
from gpu_cluster.cluster import GpuCluster
from gpu_cluster.commands import preview
from gpu_cluster.commands import stack as stacks
from gpu_cluster.commands.backend import PROJECT
from gpu_cluster.commands.environment import local_backend
from gpu_cluster.commands.stack import Stack
from tests.commands.unwritable import assert_refused, read_nothing
from tests.components.change.world import base

FAULTY = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: c}
    platform: device-plugin
    pools:
      - name: a100
        nodes: [gpu-1]
        gpusPerNode: eight
"""


@pytest.mark.promise("A preview that fails by its stack file names the line, also as JSON.")
def test_a_faulty_stack_file_is_a_failed_preview_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    (tmp_path / "Pulumi.faulty.yaml").write_text(FAULTY)
    target = tmp_path / "change.json"
    for name, value in {
        "STACK": "faulty", "JSON": "1", VARIABLE: str(target), "GITHUB_ACTIONS": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit):
        preview.main()
    printed = capsys.readouterr()
    document = Document.read(target.read_text())
    assert json.loads(printed.out) == json.loads(target.read_text())
    assert document.outcome is Outcome.FAILED
    (fault,) = document.faults
    assert (fault.file, fault.line) == ("Pulumi.faulty.yaml", 9)
    assert 'found "eight"' in document.cause
    assert "::error file=Pulumi.faulty.yaml,line=9,title=preview::" in printed.err


def test_a_change_that_can_not_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "previewed", read_nothing)
    assert_refused(tmp_path, "change.json", preview.main)


def test_the_edits_of_a_stack_file_that_does_not_load_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    (tmp_path / "Pulumi.faulty.yaml").write_text(FAULTY)
    state = tmp_path / "state" / ".pulumi" / "stacks" / PROJECT / "faulty.json"
    state.parent.mkdir(parents=True)
    settings = yaml.safe_load(FAULTY.replace("eight", "8"))["config"]["gpu-cluster:cluster"]
    deployed = resources({"settings": recorded_settings(settings)})
    state.write_text(json.dumps({"checkpoint": {"latest": {"resources": deployed}}}))
    monkeypatch.setenv("PULUMI_BACKEND_URL", local_backend(tmp_path / "state"))
    monkeypatch.setenv("STACK", "faulty")
    (edit,) = preview.previewed(Stack.named()).edits or ()
    assert (edit.path, edit.was, edit.now) == ("pools[a100].gpusPerNode", "8", "eight")


def resources(outputs: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": GpuCluster.TYPE, "outputs": outputs}]


def test_edits_are_those_since_the_settings_in_the_state() -> None:
    after = {**base(), "guardrails": {"mode": "enforce"}}
    file = StackFile("Pulumi.dev.yaml", settings=after)
    (edit,) = preview.edits_since(resources({"settings": recorded_settings(base())}), file) or ()
    assert (edit.path, edit.was, edit.now) == ("guardrails", "", "{mode: enforce}")
    assert preview.edits_since(resources({"settings": recorded_settings(after)}), file) == ()


@pytest.mark.parametrize("outputs", [{}, {"settings": "{"}, {"settings": 7}, {"settings": "[]"}])
def test_a_state_without_settings_says_nothing_of_edits(outputs: dict[str, Any]) -> None:
    assert preview.edits_since(resources(outputs), StackFile(settings=base())) is None
    assert preview.edits_since([], StackFile()) is None
