"""For programs: everything that is known of each violation and problem."""

from __future__ import annotations

import json
from dataclasses import asdict

from policies.check.report import Report
from policies.rules import Severity

VERSION = 1
"""Raised when a field changes its meaning or goes; new fields may come at any time."""


def as_json(report: Report) -> str:
    """`version`, `exitCode`, `summary`, `violations`, `problems`."""
    document = {
        "version": VERSION,
        "exitCode": report.exit_code,
        "summary": {
            "objects": report.objects,
            "foreign": report.foreign,
            "unjudged": dict(sorted(report.unjudged.items())),
            "mandatory": report.count(Severity.MANDATORY),
            "advisory": report.count(Severity.ADVISORY),
            "exempt": report.exempt,
            "unreadable": len(report.problems),
        },
        "violations": [{**asdict(each), "message": each.message} for each in report.found],
        "problems": [{**asdict(each), "message": each.message} for each in report.problems],
    }
    return json.dumps(document, indent=1) + "\n"
