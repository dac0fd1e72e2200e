"""The `junit` output format: XML with a test suite for each file and a test case for each object.

The mandatory violations of an object make one failure. The advisory violations of the object, and
those that the baseline excuses, are in the output of the test case. Input that could not be read is
an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ...rules import Severity
from ..problem import Problem
from ..report import Report
from ..result import Found, Judged

_Key = tuple[str, int, str, str]
"""File, document, chart or kustomization, and object."""
_CONTROL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: Report) -> str:
    """Return a report as a JUnit `testsuites` document."""
    root = Element("testsuites", name="gpu-rules")
    outside = [problem for problem in report.problems if problem.document is None]
    for file, problems in groupby(outside, key=lambda problem: problem.file):
        _suite(root, file, [_error(file, list(problems))])
    # Violations of rules that compare several objects are in no result of a single document.
    found = defaultdict[_Key, list[Found]](list)
    for violation in report.found:
        found[_key(violation, violation.subject)].append(violation)
    for file, judged in groupby(report.judged, key=lambda document: document.file):
        _suite(root, file, [case for document in judged for case in _cases(document, found)])
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(root: Element, file: str, cases: list[Element]) -> None:
    suite = SubElement(root, "testsuite", name=_clean(file), tests=str(len(cases)))
    suite.extend(cases)
    for key, tag in (("failures", "failure"), ("errors", "error")):
        suite.set(key, str(sum(case.find(tag) is not None for case in cases)))


def _key(item: Found | Judged, subject: str) -> _Key:
    return item.file, item.document, item.rendered, subject


def _cases(judged: Judged, found: dict[_Key, list[Found]]) -> Iterator[Element]:
    """Yield the test cases of a document, and remove its violations from `found`."""
    if judged.problems:
        yield _error(judged.file, list(judged.problems))
    for subject in dict.fromkeys(judged.subjects):
        yield _case(judged.file, subject, found.pop(_key(judged, subject), []))


def _case(file: str, subject: str, violations: list[Found]) -> Element:
    case = Element("testcase", classname=_clean(file), name=_clean(subject))
    failures, advice = list[Found](), list[Found]()
    for violation in violations:
        is_failure = violation.severity is Severity.MANDATORY and not violation.known
        (failures if is_failure else advice).append(violation)
    if failures:
        rules = ", ".join(dict.fromkeys(failure.rule for failure in failures))
        failure = SubElement(case, "failure", type="mandatory", message=rules)
        failure.text = _text(failures)
    if advice:
        SubElement(case, "system-out").text = _text(advice)
    return case


def _error(file: str, problems: list[Problem]) -> Element:
    name = "" if problems[0].document is None else f", document {problems[0].document}"
    case = Element("testcase", classname=_clean(file), name=f"reading{name}")
    error = SubElement(case, "error", type="unreadable", message=_clean(problems[0].message))
    error.text = "\n".join(
        _clean(f"{problem.file}:{problem.line}: {problem.message}") for problem in problems
    )
    return case


def _text(violations: list[Found]) -> str:
    return "\n".join(
        _clean(
            f"{violation.rule} {violation.title}\n"
            f"{violation.file}:{violation.line}: {violation.message}"
        )
        for violation in violations
    )


def _clean(text: str) -> str:
    """Return a text with each character that XML 1.0 does not allow replaced by U+FFFD."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
