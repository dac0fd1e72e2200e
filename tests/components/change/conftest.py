"""Pytest hook that prints the last line of `make test-change`: how many test cases passed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import pytest

from lab.benchmarks.measure import RESULTS
from tests.components.change.edits import EDITS
from tests.proofs.e2e import readings
from tests.proofs.e2e.refusals import REFUSALS

ANSWERS = 24
"""Answers of a forge that a run must handle, each at both forges."""
PROCEDURES = 8
"""Procedures of docs/how-to/day-two.md that edit the cluster's settings."""
_TOLD = re.compile(r"test_an_edit_is_told_in_one_screen\[(?P<edit>.+)\]$")
_ANSWER = re.compile(
    r"test_a_(temporary_answer|refusal)_\w+\[(?P<forge>github|gitlab)-(?P<answer>.+)\]$"
)

_CLAIM = re.compile(r"test_an_edit_does_what_its_preview_claims\[(?P<edit>.+)\]$")
_COMMENT = re.compile(r"test_the_comment_names_the_edit_and_what_stops_it\[(?P<edit>.+)\]$")
_HAND = re.compile(r"test_an_edit_by_hand_is_one_edit_of_its_field_and_can_be_repaired\[")
_RECONCILED = re.compile(r"test_no_reconciliation_of_a_\w+_is_an_edit$")
_PAGE = re.compile(r"test_axe_finds_no_violation\[(?P<nodes>\d+)-(light|dark)\]$")
_REFUSED = re.compile(r"test_a_refused_run_changes_nothing\[(?P<name>.+)\]$")
_PROCEDURE = re.compile(r"test_the_preview_of_a_procedure_is_what_its_edit_gives\[(?P<name>.+)\]$")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print after pytest's summary how many edits, forge responses and procedures passed."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return
    passed = [report.nodeid for report in reporter.stats.get("passed", ())]
    told = {match["edit"] for each in passed if (match := _TOLD.search(each))}
    handled: dict[str, set[str]] = {}
    for each in passed:
        if match := _ANSWER.search(each):
            handled.setdefault(match["answer"], set()).add(match["forge"])
    forges = set().union(*handled.values())
    both = sum(len(found) == 2 for found in handled.values())
    if told and handled:
        parts = [
            f"{len(told)} of {len(EDITS)} edits told",
            f"{len(forges)} forges",
            f"{both} of {ANSWERS} answers of a forge handled",
            *_pages(passed),
            *_ratios(),
            *_procedures(passed),
            *_claims(reporter.stats),
            *_hand_edits(reporter.stats),
            *_understood(reporter.stats.get("passed", ())),
            *_refusals(passed),
        ]
        reporter.write_line(f"change: {', '.join(parts)}")


def _claims(stats: Mapping[str, Sequence[pytest.TestReport]]) -> Iterator[str]:
    """Yield how many of the edits that were run did what their preview claims."""
    begun = as_claimed = 0
    for outcome in ("passed", "failed", "error"):
        for report in stats.get(outcome, ()):
            if _CLAIM.search(report.nodeid):
                # The edit and its way back; the last that was begun is the one that failed.
                number = max([int(n) for key, n in report.user_properties if key == "edits"] or [1])
                begun += number
                as_claimed += number if outcome == "passed" else number - 1
    if begun:
        yield f"{as_claimed} of {begun} edits as claimed"


def _hand_edits(stats: Mapping[str, Sequence[pytest.TestReport]]) -> Iterator[str]:
    """Yield how many edits by hand were drift, and how often a reconciliation was taken for one."""

    def count(pattern: re.Pattern[str], *outcomes: str) -> int:
        return sum(
            bool(pattern.search(report.nodeid))
            for outcome in outcomes
            for report in stats.get(outcome, ())
        )

    if total := count(_HAND, "passed", "failed", "error"):
        false = count(_RECONCILED, "failed", "error")
        yield f"{count(_HAND, 'passed')} of {total} hand edits drift, {false} false drift"


def _understood(passed: Sequence[pytest.TestReport]) -> Iterator[str]:
    """Yield how many edits readers understood from the comment that was rendered now."""
    digests = {
        match["edit"]: str(value)
        for report in passed
        if (match := _COMMENT.search(report.nodeid))
        for key, value in report.user_properties
        if key == readings.DIGEST
    }
    if digests:
        number = len(readings.understood(digests, readings.recorded()))
        yield f"{number} of {len(readings.EDITS)} edits understood"


def _pages(passed: Collection[str]) -> Iterator[str]:
    """Yield at how many nodes the report had no violation, in light and in dark."""
    pages = [match for each in passed if (match := _PAGE.search(each))]
    sizes = sorted({int(match["nodes"]) for match in pages})
    if sizes and len(pages) == 2 * len(sizes):
        yield f"page at {' and '.join(f'{size:,}' for size in sizes)} nodes with 0 violations"


def _ratios() -> Iterator[str]:
    """Yield the ratios to kubectl that the benchmark B9 left; `make test-change` runs it before."""
    path = RESULTS / "B9.json"
    if path.exists():
        found = json.loads(path.read_text())["ratios"]
        rest = [f"{name} {ratio:.1f} ×" for name, ratio in found.items() if name != "status"]
        yield f"status {found['status']:.1f} × kubectl ({', '.join(rest)})"


def _procedures(passed: Collection[str]) -> Iterator[str]:
    found = {match["name"] for each in passed if (match := _PROCEDURE.search(each))}
    yield f"{len(found)} of {PROCEDURES} procedures"


def _refusals(passed: Collection[str]) -> Iterator[str]:
    """Yield how many refused runs changed nothing, if the proof with the runs was selected."""
    if found := {match["name"] for each in passed if (match := _REFUSED.search(each))}:
        yield f"{len(found)} of {len(REFUSALS)} refusals changed nothing"
