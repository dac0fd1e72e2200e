"""Validation results as test reports that CI systems read: JUnit's XML and CTRF's JSON. Pure.

A GPU whose kernel was only simulated never counts as passed: its test case has the status `skipped`
in JUnit, which has no closer status, and `other` in CTRF.

Sources: windyroad/JUnit-Schema, JUnit.xsd; ctrf-io/ctrf, schema/ctrf.schema.json. Both formats
require the duration of a case. The validation does not measure it, so it is 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree

from gpu_cluster.validation.measurement import Outcome
from gpu_rules.printable import printable

TOOL = "gpu-cluster"
"""Name of the tool in a report."""
SPECIFICATION = "1.0.0"
"""Version of CTRF's specification."""
LONGEST = 1000
"""Maximum number of characters of a message."""


class Status(StrEnum):
    """Status of a test case; the values are those of CTRF."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Test case of a report: a GPU of a node, or a user-defined test on a node.

    Attributes:
        pool: Name of the node's pool.
        name: UUID or number of the GPU, or name of the test.
        status: Status of the case.
        message: Why the case did not pass. Empty if it passed.
        at: Time of the result, UTC, such as `2026-11-26T12:00:00Z`. Empty if unknown.
        figure: Measured value. None: nothing is measured.
    """

    node: str
    pool: str
    name: str
    status: Status
    message: str = ""
    at: str = ""
    figure: float | None = None

    @property
    def raw(self) -> str:
        """Return the status as text for this project's own output."""
        return "simulated" if self.status is Status.OTHER else self.status.value


def cases(nodes: Sequence[Mapping[str, Any]], tests: Sequence[Mapping[str, Any]]) -> list[Case]:
    """Return the test cases of a validation.

    Args:
        nodes: Output `nodes` of the stack.
        tests: Output `tests` of the stack.
    """
    return [*(case for node in nodes for case in _gpu_cases(node)), *map(_test_case, tests)]


def failed(message: str, errors: Sequence[str] = ()) -> list[Case]:
    """Return failed test cases for a run that ended without results.

    Args:
        message: Last line of the run's output.
        errors: The errors that the run printed; each has its own case.
    """
    texts = {"run": message} | {f"error {n}": text for n, text in enumerate(errors, start=1)}
    return [
        Case(
            node="stack",
            pool="stack",
            name=name,
            status=Status.FAILED,
            message=printable(text, LONGEST),
        )
        for name, text in texts.items()
    ]


def _gpu_cases(node: Mapping[str, Any]) -> Iterator[Case]:
    """Yield a case for each declared GPU of a node."""
    simulated = bool(node["simulated"])
    ran = int(node["simulated"] or node["computed"])
    uuids = [printable(uuid, LONGEST) for uuid in sorted(node.get("devices") or {})][:ran]
    pool, name = str(node.get("pool", "")), str(node["name"])
    numbered = [f"GPU {number} of {node['declared']}" for number in range(1, 1 + node["declared"])]
    for gpu in [*uuids, *numbered[len(uuids) : ran]]:
        yield Case(
            node=name,
            pool=pool,
            name=gpu,
            status=Status.OTHER if simulated else Status.PASSED,
            message="simulated: no kernel ran" if simulated else "",
            at=str(node.get("since") or ""),
        )
    holders_text = printable(str(node.get("held") or ""), LONGEST)
    for gpu in numbered[ran:]:
        yield Case(
            node=name,
            pool=pool,
            name=gpu,
            status=Status.SKIPPED,
            message=f"not validated yet, held by {holders_text}"
            if holders_text
            else "not validated yet",
            at=str(node.get("since") or ""),
        )


def _test_case(document: Mapping[str, Any]) -> Case:
    """Return the case of a user-defined test on a node."""
    outcome = Outcome(**document)
    status, message = Status.PASSED, ""
    if outcome.problem:
        status, message = Status.FAILED, outcome.problem
    elif outcome.skipped:
        status, message = Status.SKIPPED, outcome.skipped
    elif outcome.simulated:
        status, message = Status.OTHER, "simulated: the test did not run"
    return Case(
        node=outcome.node,
        pool=outcome.pool,
        name=f"test {outcome.test}",
        status=status,
        message=printable(message, LONGEST),
        at=outcome.at,
        figure=outcome.figure,
    )


def junit(stack: str, results: Sequence[Case], now: datetime) -> str:
    """Return the JUnit report: one suite per node, one case per GPU or test.

    Args:
        now: Time of the report, used for results without a time.
    """
    root = ElementTree.Element("testsuites")
    for number, node in enumerate(dict.fromkeys(case.node for case in results)):
        listed = [case for case in results if case.node == node]
        counts = _count_cases(listed)
        at = max((case.at for case in listed if case.at), default="")
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            {
                "name": node,
                "package": f"{stack}.{listed[0].pool}",
                "id": str(number),
                "hostname": node,
                "timestamp": f"{_case_time(at, now):%Y-%m-%dT%H:%M:%S}",
                "tests": str(len(listed)),
                "failures": str(counts[Status.FAILED]),
                "errors": "0",
                "skipped": str(counts[Status.SKIPPED] + counts[Status.OTHER]),
                "time": "0",
            },
        )
        ElementTree.SubElement(suite, "properties")
        for case in listed:
            _junit_case(suite, stack, case)
        ElementTree.SubElement(suite, "system-out")
        ElementTree.SubElement(suite, "system-err")
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _junit_case(suite: ElementTree.Element, stack: str, case: Case) -> None:
    place = {"name": case.name, "classname": f"{stack}.{case.pool}.{case.node}", "time": "0"}
    element = ElementTree.SubElement(suite, "testcase", place)
    if case.status is Status.FAILED:
        failure = {"type": "validation", "message": case.message}
        ElementTree.SubElement(element, "failure", failure).text = case.message
    elif case.status is not Status.PASSED:
        ElementTree.SubElement(element, "skipped", {"message": case.message})


def ctrf(stack: str, results: Sequence[Case], now: datetime) -> str:
    """Return the CTRF report: one test per GPU or user-defined test.

    Args:
        now: Time of the report, used for results without a time.
    """
    counts = _count_cases(results)
    times = [_to_milliseconds(_case_time(case.at, now)) for case in results] or [
        _to_milliseconds(now)
    ]
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPECIFICATION,
        "timestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "generatedBy": TOOL,
        "results": {
            "tool": {"name": TOOL},
            "summary": {
                "tests": len(results),
                **{status.value: counts[status] for status in Status},
                "pending": 0,
                "start": min(times),
                "stop": max(times),
            },
            "tests": [_ctrf_case(stack, case) for case in results],
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _ctrf_case(stack: str, case: Case) -> dict[str, Any]:
    labels = {} if case.figure is None else {"labels": {"figure": case.figure}}
    return {
        "name": f"{case.node} {case.name}",
        "status": case.status.value,
        "rawStatus": case.raw,
        "duration": 0,
        "suite": [stack, case.pool, case.node],
        **({"message": case.message} if case.message else {}),
        **labels,
    }


def _count_cases(results: Sequence[Case]) -> dict[Status, int]:
    return {status: sum(case.status is status for case in results) for status in Status}


def _case_time(text: str, now: datetime) -> datetime:
    """Return the time of a result, or the time of the report if the result has none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return now


def _to_milliseconds(time: datetime) -> int:
    return int(time.timestamp()) * 1000
