"""Validation results as JUnit's XML and CTRF's JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from gpu_cluster.commands.validate import report_files, reported
from gpu_cluster.commands.validation_reports import Case, Status, cases, ctrf, failed, junit
from gpu_cluster.validation.measurement import Outcome, plain
from gpu_rules.faults import FaultError

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
UUIDS = [f"GPU-{number:08d}" for number in range(8)]
CTRF = {
    "type": "object",
    "required": ["results", "reportFormat", "specVersion"],
    "properties": {
        "reportFormat": {"const": "CTRF"},
        "specVersion": {"pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "timestamp": {"format": "date-time"},
        "generatedBy": {"type": "string"},
        "results": {
            "required": ["tool", "summary", "tests"],
            "properties": {
                "tool": {"required": ["name"]},
                "summary": {
                    "required": [
                        *("tests", "passed", "failed", "skipped", "pending", "other"),
                        *("start", "stop"),
                    ],
                    "additionalProperties": {"type": "integer"},
                },
                "tests": {
                    "items": {
                        "required": ["name", "status", "duration"],
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "status": {"enum": ["passed", "failed", "skipped", "pending", "other"]},
                            "duration": {"type": "integer"},
                            "suite": {"type": "array", "minItems": 1, "items": {"type": "string"}},
                            "message": {"type": "string"},
                            "rawStatus": {"type": "string"},
                            "labels": {"type": "object"},
                        },
                        "additionalProperties": False,
                    }
                },
            },
        },
    },
    "additionalProperties": False,
}
"""What ctrf-io/ctrf, schema/ctrf.schema.json, requires of the keys that a report has."""
SUITE = {
    *("name", "package", "id", "hostname", "timestamp", "tests", "failures", "errors", "skipped"),
    "time",
}
"""Attributes of a suite in windyroad/JUnit-Schema, JUnit.xsd; all but `skipped` are required."""


def node(name: str = "gpu-1", **changed: Any) -> dict[str, Any]:
    """Return a node of the output `nodes` with eight GPUs that each ran a kernel."""
    return {
        "name": name,
        "pool": "a100",
        "declared": 8,
        "computed": 8,
        "simulated": 0,
        "deferred": 0,
        "held": "",
        "since": "2026-11-25T08:30:00Z",
        "devices": {uuid: [] for uuid in UUIDS},
        **changed,
    }


def parsed(text: str) -> Any:
    return ElementTree.fromstring(text)  # noqa: S314 - made by this test


def both(nodes: list[dict[str, Any]], tests: list[Outcome]) -> tuple[Any, Any]:
    """Return the parsed reports of a validation."""
    found = cases(nodes, plain(tests))
    document = json.loads(ctrf("dev", found, NOW))
    jsonschema.validate(document, CTRF)
    return parsed(junit("dev", found, NOW)), document


@pytest.mark.promise(
    "`gpu-cluster validate --junit file --ctrf file` writes a case for each declared GPU and "
    "each test; a GPU "
    "that was only simulated or has not run a kernel never counts as passed."
)
def test_a_case_passes_only_if_its_gpu_ran_a_kernel() -> None:
    nodes = [
        node(),
        node(
            "gpu-2", computed=5, deferred=3, held="pod ai/train", devices=dict.fromkeys(UUIDS[:5])
        ),
        node("gpu-3", computed=0, simulated=8),
        node("gpu-4", computed=0, deferred=8, since="", devices={}),
    ]
    xml, document = both(nodes, [])
    summary = document["results"]["summary"]
    assert {key: summary[key] for key in ("tests", "passed", "failed", "skipped", "other")} == {
        "tests": 32,
        "passed": 13,
        "failed": 0,
        "skipped": 11,
        "other": 8,
    }
    passed = [case for case in xml.iter("testcase") if len(case) == 0]
    assert len(passed) == 13
    assert {case.get("name") for case in passed} == set(UUIDS)
    messages = {case.get("message") for case in xml.iter("skipped")}
    assert messages == {
        "not validated yet, held by pod ai/train",
        "not validated yet",
        "simulated: no kernel ran",
    }


def test_a_test_fails_with_its_reason_and_keeps_its_figure() -> None:
    tests = [
        Outcome("all-reduce", "gpu-1", "a100", 92.5, 300.0, "92.5, below 300"),
        Outcome("all-reduce", "gpu-2", "a100", 310.0, 300.0),
        Outcome("all-reduce", "gpu-3", "a100", skipped="its GPUs are in use"),
        Outcome("all-reduce", "gpu-4", "a100", simulated=True),
    ]
    xml, document = both([], tests)
    found = {test["suite"][-1]: test for test in document["results"]["tests"]}
    assert [found[name]["status"] for name in sorted(found)] == [
        "failed",
        "passed",
        "skipped",
        "other",
    ]
    assert found["gpu-2"]["labels"] == {"figure": 310.0}
    (failure,) = xml.iter("failure")
    assert failure.get("message") == "92.5, below 300"


def test_a_junit_report_has_what_its_schema_requires() -> None:
    xml, _ = both([node(), node("gpu-2", since="")], [])
    assert xml.tag == "testsuites"
    for number, suite in enumerate(xml):
        assert set(suite.attrib) == SUITE
        assert suite.get("id") == str(number)
        assert [child.tag for child in suite] == [
            "properties",
            *["testcase"] * 8,
            "system-out",
            "system-err",
        ]
        assert int(suite.attrib["tests"]) == 8
        assert all(set(case.attrib) == {"name", "classname", "time"} for case in suite[1:-2])
    assert [suite.get("timestamp") for suite in xml] == [
        "2026-11-25T08:30:00",
        "2026-11-26T12:00:00",
    ]


def test_hostile_text_stays_text_in_both_reports() -> None:
    hostile = '\x1b]0;x\x07 <!ENTITY a "b"> ]]> & "quoted" \x00'
    nodes = [node(computed=0, deferred=8, held=hostile, devices={})]
    xml, document = both(nodes, [Outcome("t", "gpu-1", "a100", problem=hostile)])
    text = "".join(str(part) for case in xml.iter() for part in case.attrib.values())
    for shown in (text, json.dumps(document)):
        assert "\x1b" not in shown
        assert "\x00" not in shown
    assert "<!ENTITY" in text


def test_a_pool_whose_uuids_are_not_listed_still_has_a_case_per_gpu() -> None:
    found = cases([node(devices={})], [])
    assert [case.name for case in found] == [f"GPU {number} of 8" for number in range(1, 9)]
    assert {case.status for case in found} == {Status.PASSED}


def test_the_reports_of_a_failed_run_name_its_failure(tmp_path: Any) -> None:
    paths = {"--junit": str(tmp_path / "junit.xml"), "--ctrf": str(tmp_path / "ctrf.json")}
    messages = [
        {"severity": "error", "text": "node gpu-1: no GPU\nnode gpu-2: no GPU"},
        {"severity": "info", "text": "node gpu-3 is ready"},
    ]
    with pytest.raises(SystemExit), reported("dev", {"messages": messages}, report_files(paths)):
        raise SystemExit("validate: failed after 3 s: node gpu-1: no GPU; more above")
    failures = list(parsed((tmp_path / "junit.xml").read_text()).iter("failure"))
    assert len(failures) == 2
    assert "node gpu-1: no GPU; more above" in str(failures[0].get("message"))
    assert "node gpu-2: no GPU" in str(failures[1].get("message"))
    document = json.loads((tmp_path / "ctrf.json").read_text())
    assert document["results"]["summary"]["failed"] == 2


@pytest.mark.promise(
    "A report or evidence file that can't be written is refused before the command runs."
)
@pytest.mark.parametrize("path", [".", "none/junit.xml"])
def test_a_report_that_cannot_be_written_is_refused_before_the_run(
    path: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FaultError, match=f"--junit: found {path}, a "):
        report_files({"--junit": path})


def test_a_run_with_results_writes_only_the_reports_that_were_asked_for(tmp_path: Any) -> None:
    paths = {"--junit": str(tmp_path / "junit.xml"), "--ctrf": ""}
    with reported("dev", {"outputs": {"nodes": [node()], "tests": []}}, report_files(paths)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]


def test_a_report_without_cases_is_valid() -> None:
    xml, document = both([], [])
    assert len(xml) == 0
    assert document["results"]["tests"] == []


def test_the_case_of_a_failed_run_counts_as_failed() -> None:
    (case,) = failed("validate: failed")
    assert isinstance(case, Case)
    assert case.status is Status.FAILED
