"""Annotations of the stack file's lines in GitHub and GitLab."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_cluster.change.document import Document, Outcome, Problem
from gpu_cluster.commands.annotations import MOST, REPORT, annotate, of_github, of_gitlab


def document(*problems: Problem) -> Document:
    return Document(stack="dev", outcome=Outcome.FAILED, faults=problems)


def problem(text: str, **more: object) -> Problem:
    return Problem.model_validate({"text": text, "file": "Pulumi.dev.yaml", "line": 3, **more})


def test_an_annotation_names_file_line_and_rule_and_ends_no_command() -> None:
    found = of_github(
        document(
            problem("100% of\n::add-mask::x", rule="GPU049"),
            problem("b", mandatory=False),
            problem("c", line=None),
        )
    )
    assert found == [
        "::error file=Pulumi.dev.yaml,line=3,title=GPU049::100%25 of\\n::add-mask::x",
        "::warning file=Pulumi.dev.yaml,line=3,title=preview::b",
    ]
    (hostile,) = of_github(document(problem("a", file="x,line=9::error ::y")))
    assert hostile == "::error file=x%2Cline=9%3A%3Aerror %3A%3Ay,line=3,title=preview::a"


def test_no_more_annotations_than_github_shows() -> None:
    assert len(of_github(document(*(problem(f"{n}") for n in range(50))))) == MOST


def test_gitlabs_report_has_a_fingerprint_for_each_problem() -> None:
    report = json.loads(of_gitlab(document(problem("a"), problem("b", mandatory=False))))
    assert [(each["severity"], each["location"]) for each in report] == [
        ("major", {"path": "Pulumi.dev.yaml", "lines": {"begin": 3}}),
        ("minor", {"path": "Pulumi.dev.yaml", "lines": {"begin": 3}}),
    ]
    assert len({each["fingerprint"] for each in report}) == 2


def test_each_forge_gets_its_own_form_and_a_terminal_none(tmp_path: Path) -> None:
    made = document(problem("a"))
    assert list(annotate(made, {}, tmp_path)) == []
    assert list(tmp_path.iterdir()) == []
    assert list(annotate(made, {"GITHUB_ACTIONS": "true"}, tmp_path)) == of_github(made)
    assert list(annotate(made, {"GITLAB_CI": "true"}, tmp_path)) == []
    assert (tmp_path / REPORT).read_text() == of_gitlab(made)
