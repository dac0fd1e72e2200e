"""`gpu-cluster report` refuses a change document of another stack, or one with a wrong schema."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster.change.document import Document, Outcome
from gpu_cluster.commands import stack as stacks
from gpu_cluster.commands.report import __main__ as report
from gpu_cluster.validation.measurement import Outcome as Figure
from tests.commands.unwritable import assert_refused, read_nothing

STACK = """\
config:
  gpu-cluster:cluster:
    version: v1
    kubernetes: {context: c}
    platform: device-plugin
    maintenance: [gpu-2]
    pools:
      - name: a100
        nodes: ["gpu-[1-2]"]
        gpusPerNode: 8
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(stacks, "ROOT", tmp_path)
    (tmp_path / "Pulumi.small.yaml").write_text(STACK)
    monkeypatch.setenv("STACK", "small")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (Document(stack="other", outcome=Outcome.UNCHANGED).write(), "about stack other"),
        ('{"version": "v9"}', "no change document of version v1"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_document_of_the_stack_gives_no_page(
    folder: Path, text: str | None, found: str
) -> None:
    if text is not None:
        (folder / "change.json").write_text(text)
    with pytest.raises(SystemExit) as stopped:
        report.main(file=str(folder / "page.html"), change=str(folder / "change.json"))
    assert found in str(stopped.value)
    assert not (folder / "page.html").exists()


def test_a_page_that_can_not_be_written_is_refused_before_anything_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_document", read_nothing)
    assert_refused(folder, "page.html", report.main)


@pytest.mark.usefixtures("folder")
def test_nodes_in_maintenance_are_listed_with_their_pool() -> None:
    assert stacks.Stack.current().pools_in_maintenance == {"gpu-2": "a100"}


def test_results_of_tests_come_back_as_they_were_exported() -> None:
    figure = Figure("all-reduce", "gpu-1", "a100", 412.5, 400.0)
    assert report.figures_of([asdict(figure)]) == (figure,)


@pytest.mark.parametrize("tests", ["text", [{"test": "a"}], [{"test": 1, "node": 2}], 7])
def test_an_output_that_is_no_list_of_results_is_refused(tests: Any) -> None:
    with pytest.raises(ValueError, match=r".+: .+"):
        report.figures_of(tests)
