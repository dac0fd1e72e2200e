"""The verb preview reports faults of the stack file in the change document, without engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpu_cluster.change.document import Document, Outcome
from gpu_cluster.change.file import VARIABLE
from gpu_cluster.commands import preview
from gpu_cluster.commands import stack as stacks
from tests.commands.unwritable import assert_refused, read_nothing

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
