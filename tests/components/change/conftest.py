"""Pytest hook that prints the last line of `make test-change`: how many test cases passed."""

from __future__ import annotations

import re

import pytest

from tests.components.change.edits import EDITS

ANSWERS = 24
"""Answers of a forge that a run must handle, each at both forges."""
PROCEDURES = 8
"""Procedures of docs/how-to/day-two.md that edit the cluster's settings."""
_TOLD = re.compile(r"test_an_edit_is_told_in_one_screen\[(?P<edit>.+)\]$")
_ANSWER = re.compile(
    r"test_a_(temporary_answer|refusal)_\w+\[(?P<forge>github|gitlab)-(?P<answer>.+)\]$"
)

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
    procedures = {match["name"] for each in passed if (match := _PROCEDURE.search(each))}
    forges = set().union(*handled.values())
    both = sum(len(found) == 2 for found in handled.values())
    if told and handled:
        reporter.write_line(
            f"change: {len(told)} of {len(EDITS)} edits told, {len(forges)} forges, "
            f"{both} of {ANSWERS} answers of a forge handled, "
            f"{len(procedures)} of {PROCEDURES} procedures previewed"
        )
