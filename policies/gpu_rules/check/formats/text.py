"""The `text` output format for people: two lines for each violation, and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...printable import printable
from ...rules import Severity
from ..problem import Problem, Unjudged
from ..report import Report
from ..result import Found

_UNREADABLE: Final = "unreadable"
_UNJUDGED: Final = "not checked"
_STYLES: Final = {
    _UNREADABLE: "bold red",
    str(Severity.MANDATORY): "bold red",
    str(Severity.ADVISORY): "yellow",
    _UNJUDGED: "yellow",
}


def text(report: Report) -> str:
    """Return a report as plain text."""
    return "".join(f"{''.join(parts)}\n" for parts in _lines(report))


def show(report: Report) -> None:
    """Print a report on a terminal, in colors."""
    # rich is imported only for output on a terminal.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for where, level, rest in _lines(report):
        console.print(
            Text.assemble((where, "bold"), (level, _STYLES.get(level, "")), rest), soft_wrap=True
        )


def _lines(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of the text output, each as place, severity and the rest of the line."""
    for problem in report.problems:
        yield f"{_place(problem)}: ", _UNREADABLE, ""
        yield "", "", f"    {printable(problem.message)}"
    for violation, others in report.listed():
        rule = f" {violation.rule} {violation.title}"
        yield f"{_place(violation)}: ", str(violation.severity), rule
        yield "", "", f"    {printable(violation.message)}"
        if others:
            yield "", "", f"    … and {others} more of {violation.rule}; --all lists them"
    for left_out in report.unjudged:
        if left_out.path or left_out.reason:
            yield f"{_place(left_out)}: ", _UNJUDGED, f" {left_out.what}"
            yield "", "", f"    {printable(left_out.message)}"
    yield "", "", report.summary


def _place(item: Found | Problem | Unjudged) -> str:
    """Return the place of an entry as `file:line`, or only the file if the line is not known."""
    file = printable(item.file)
    return file if item.line is None else f"{file}:{item.line}"
