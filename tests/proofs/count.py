"""Pytest plugin that counts tests by a marker and prints the summary line of a proof.

A test is counted by the marker `@pytest.mark.<mark>(kind, name)`, also by several of them. A test
that shows several things calls `record_property("<mark>", (kind, name, passed))`. `kind` is a key
of the proof's phrases; a test with another kind runs without being counted. `name` is what the
test shows; the default is the test's id. A name counts as passed if all its tests pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import pytest


class Outcome(IntEnum):
    """Outcome of a test; of several outcomes the greatest counts."""

    PASSED = 0
    SKIPPED = 1
    FAILED = 2


Results = Mapping[str, Mapping[str, Outcome]]
"""Outcomes of tests: name, then test id, then outcome."""


def has_passed(tests: Mapping[str, Outcome]) -> bool:
    """Return whether all tests of a name passed."""
    return not any(tests.values())


def number_passed(results: Results) -> int:
    """Return how many names passed."""
    return sum(map(has_passed, results.values()))


def number_skipped(results: Results) -> int:
    """Return how many names did not fail, but had a test that was skipped."""
    return sum(max(tests.values()) is Outcome.SKIPPED for tests in results.values())


def of_all(results: Results) -> str:
    """Return how many names passed, of how many: `3 of 4`."""
    return f"{number_passed(results)} of {len(results)}"


@dataclass(eq=False)  # Pytest compares plugins by identity, so the class must not define equality.
class Count:
    """Pytest plugin that counts tests with one marker, in all test processes.

    Attributes:
        mark: Name of the marker; also the summary line's first word.
        line: Function that returns the rest of the summary line. It gets the results by kind.
        unneeded: Function that returns entries of lists that no test needed; each is a fault.
        seen: Results by kind.
    """

    mark: str
    line: Callable[[Mapping[str, Results]], str]
    unneeded: Callable[[Mapping[str, Results]], list[str]] = field(default=lambda _: [])
    seen: dict[str, dict[str, dict[str, Outcome]]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Copy each test's markers into the properties of its report."""
        for item in items:
            for marker in item.iter_markers(self.mark):
                kind, name = (*marker.args, item.nodeid)[:2]
                item.user_properties.append((self.mark, (kind, name)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test and its fixtures."""
        for key, told in report.user_properties:
            if key == self.mark:
                kind, name, *shown = told  # type: ignore[misc]
                outcome = Outcome[report.outcome.upper()]
                if shown:
                    outcome = Outcome.PASSED if all(shown) else Outcome.FAILED
                tests = self.seen.setdefault(kind, {}).setdefault(name, {})
                tests[report.nodeid] = max(tests.get(report.nodeid, Outcome.PASSED), outcome)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run for entries that no test needed; a test process sees a part only."""
        if hasattr(session.config, "workerinput") or not (found := self.unneeded(self.seen)):
            return
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.write_line("\n".join(["entries that nothing needs:", *found]))
        session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the summary line if only tests with the marker were selected."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self.seen and config.getoption("markexpr") == self.mark:
            reporter.write_line(f"{self.mark}: {self.line(self.seen)}")
