"""The `json` output format, with all fields of each violation, problem and unchecked field."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from ...rules import Severity
from ..problem import Problem, Unjudged
from ..report import Report
from ..result import Found

VERSION = 1
"""Version of the JSON format.

The version is raised if the meaning of a field changes or a field is removed, but not for new
fields.
"""


def as_json(report: Report) -> str:
    """Return a report as JSON: version, exitCode, summary, violations, problems and unjudged."""
    document = {
        "version": VERSION,
        "exitCode": report.exit_code,
        "summary": {
            "objects": report.objects,
            "foreign": report.foreign,
            "templates": report.templates,
            "unjudged": dict(sorted(report.unjudged_kinds.items())),
            "mandatory": report.count(Severity.MANDATORY),
            "advisory": report.count(Severity.ADVISORY),
            "exempt": report.exempt,
            "known": report.known,
            "gone": report.gone,
            "unreadable": len(report.problems),
        },
        "violations": [_with_message(violation) for violation in report.found],
        "problems": [_with_message(problem) for problem in report.problems],
        "unjudged": [_with_message(left_out) for left_out in report.unjudged],
    }
    return json.dumps(document, indent=1) + "\n"


def _with_message(entry: Found | Problem | Unjudged) -> dict[str, Any]:
    return {**asdict(entry), "message": entry.message}
