"""Show a preview's problems at the lines of the stack file, in GitHub and GitLab."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpu_cluster.change.document import Document, Problem
from gpu_cluster.commands.forges.comment_markdown import problems
from gpu_rules.printable import printable

REPORT = "gl-code-quality-report.json"
"""Name of the report that GitLab shows in the changes of a merge request.

Source: GitLab documentation, "Code Quality", report format.
"""
MOST = 10
"""Maximum number of annotations of one severity and step that GitHub shows (GitHub documentation,
"Workflow commands", limits of annotations).
"""


def of_github(document: Document) -> list[str]:
    """Return GitHub's workflow commands that annotate the lines of the stack file.

    Source: GitHub documentation, "Workflow commands"; actions/toolkit packages/core/src/command.ts,
    escapeData and escapeProperty.
    """
    all_problems = list(problems(document))
    chosen = [problem for problem in all_problems if problem.mandatory][:MOST]
    chosen += [problem for problem in all_problems if not problem.mandatory][:MOST]
    return [_annotation_command(problem) for problem in chosen]


def _annotation_command(problem: Problem) -> str:
    kind = "error" if problem.mandatory else "warning"
    file, title = (
        _escape_characters(text, ":,") for text in (problem.file, problem.rule or "preview")
    )
    text = _escape_characters(printable(problem.text))
    return f"::{kind} file={file},line={problem.line},title={title}::{text}"


def _escape_characters(text: str, more: str = "") -> str:
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def of_gitlab(document: Document) -> str:
    """Return GitLab's code quality report about the problems, as JSON."""
    return json.dumps([_report_entry(problem) for problem in problems(document)], indent=1) + "\n"


def _report_entry(problem: Problem) -> dict[str, object]:
    text = printable(problem.text)
    key = f"{problem.file}:{problem.rule}:{text}"
    return {
        "description": text,
        "check_name": problem.rule or "preview",
        "fingerprint": hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:40],
        "severity": "major" if problem.mandatory else "minor",
        "location": {"path": problem.file, "lines": {"begin": problem.line}},
    }


def annotate(document: Document, environment: Mapping[str, str], folder: Path) -> Iterable[str]:
    """Annotate problems: return the lines to print in GitHub, or write the report in GitLab.

    Args:
        document: The change document.
        environment: Environment variables of the job.
        folder: Folder that gets the report.

    Raises:
        OSError: The report can't be written.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return of_github(document)
    if environment.get("GITLAB_CI") == "true":
        (folder / REPORT).write_text(of_gitlab(document), encoding="utf-8")
    return ()
