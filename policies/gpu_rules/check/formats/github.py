"""The `github` output format: workflow commands, which GitHub Actions shows as annotations.

The values are escaped as in actions/toolkit packages/core/src/command.ts.
"""

from __future__ import annotations

from ...printable import printable
from ...rules import Severity
from ..files import STDIN_NAME
from ..problem import Problem, Unjudged
from ..report import Report
from ..result import Found

_COMMANDS = {Severity.MANDATORY: "error", Severity.ADVISORY: "warning"}


def github(report: Report) -> str:
    """Return a report as workflow commands, one for each violation and problem, and a summary."""
    lines = [_line("error", problem, "unreadable", problem.message) for problem in report.problems]
    lines += [
        _line(
            _command(violation), violation, f"{violation.rule} {violation.title}", violation.message
        )
        for violation in report.found
        if not violation.known
    ]
    lines += [
        _line("warning", left_out, "not checked", left_out.message)
        for left_out in report.unjudged
        if left_out.path
    ]
    return "".join(f"{line}\n" for line in (*lines, report.summary))


def _command(violation: Found) -> str:
    return "notice" if violation.exemption else _COMMANDS[violation.severity]


def _line(command: str, item: Found | Problem | Unjudged, title: str, message: str) -> str:
    properties = {} if item.file == STDIN_NAME else {"file": item.file}
    if properties and item.line is not None:
        properties["line"] = str(item.line)
    properties["title"] = title
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{command} {given}::{_data(message)}"


def _data(text: str) -> str:
    lines = text.replace("%", "%25").replace("\r", "%0D").split("\n")
    return "%0A".join(printable(line) for line in lines)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
