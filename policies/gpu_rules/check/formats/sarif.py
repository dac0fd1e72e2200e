"""The `sarif` output format: SARIF 2.1.0 for code scanning.

Source: OASIS Static Analysis Results Interchange Format 2.1.0. GitHub's code scanning reads
`level`, the first location and `partialFingerprints` of a result.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ...rules import RULES, Rule, Severity
from ...rules.links import link
from ...rules.registry import GROUPS
from ..files import STDIN_NAME
from ..problem import Problem, Unjudged
from ..report import VIOLATIONS, Report
from ..result import Found

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_HIGH, _MEDIUM = "8.0", "5.0"
"""Severities of the levels high (7.0 to 8.9) and medium (4.0 to 6.9): GitHub's documentation, SARIF
support for code scanning, reportingDescriptor object.
"""
_LEVELS = {Severity.MANDATORY: "error", Severity.ADVISORY: "warning"}


def sarif(report: Report) -> str:
    """Return a report as a SARIF log with one run and a description of each broken rule."""
    broken = sorted({violation.rule for violation in report.found})
    run = {
        "tool": {
            "driver": {"name": "gpu-rules", "rules": [_rule(RULES[id_]) for id_ in broken]},
        },
        "invocations": [
            {
                "executionSuccessful": report.exit_code <= VIOLATIONS,
                "exitCode": report.exit_code,
                "toolExecutionNotifications": [
                    *(_notification(problem, "error") for problem in report.problems),
                    *(_notification(left_out, "warning") for left_out in report.unjudged),
                ],
            }
        ],
        "results": [_result(violation, broken.index(violation.rule)) for violation in report.found],
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    address = link(rule.id)
    return {
        "id": rule.id,
        **({"helpUri": address} if address else {}),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\nSource: {rule.source}."},
        "defaultConfiguration": {"level": _LEVELS.get(rule.severity, "none")},
        "properties": _properties(rule),
    }


def _properties(rule: Rule) -> dict[str, Any]:
    """Return tags, and a severity for the rules that keep pods apart, which code scanning shows."""
    group = GROUPS.get(rule.id, "own")
    if group != "isolation":
        return {"tags": [group]}
    severity = _HIGH if rule.severity is Severity.MANDATORY else _MEDIUM
    return {"tags": [group, "security"], "security-severity": severity}


def _result(violation: Found, index: int) -> dict[str, Any]:
    same = "\n".join((violation.rule, violation.subject, violation.path))
    suppressions = []
    if violation.exemption:
        suppressions.append({"kind": "inSource", "justification": violation.exemption})
    if violation.known:
        suppressions.append({"kind": "external", "justification": "known from the baseline"})
    return {
        "ruleId": violation.rule,
        "ruleIndex": index,
        "level": _LEVELS[violation.severity],
        "message": {"text": violation.message},
        "locations": [_location(violation)],
        "partialFingerprints": {"object/v1": hashlib.sha256(same.encode()).hexdigest()},
        "suppressions": suppressions,
    }


def _notification(problem: Problem | Unjudged, level: str) -> dict[str, Any]:
    return {
        "level": level,
        "message": {"text": problem.message},
        "locations": [_location(problem)],
    }


def _location(item: Found | Problem | Unjudged) -> dict[str, Any]:
    name = "stdin" if item.file == STDIN_NAME else PurePath(item.file).as_posix()
    quoted = quote(os.fsencode(name))  # File names may contain invalid bytes.
    uri = f"file://{quoted}" if name.startswith("/") else quoted
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if item.line is not None:
        physical["region"] = {"startLine": item.line}
    location: dict[str, Any] = {"physicalLocation": physical}
    if isinstance(item, Found):
        location["logicalLocations"] = [
            {"name": item.subject, "fullyQualifiedName": f"{item.subject}: {item.path}"}
        ]
    return location
