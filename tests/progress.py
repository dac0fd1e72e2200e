"""Progress output of `make test`: expected duration, part that is done, remaining time.

``tests/seconds.json`` contains the seconds that each test file took in an earlier run on two idle
threads. ``python -m tests.progress RESULTS.xml`` writes that file from pytest's JUnit file.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
SECONDS = ROOT / "tests" / "seconds.json"
EVERY = 15.0
"""Seconds between two lines of output."""
UNKNOWN = 1.0
"""Assumed seconds of a test file that is not in ``tests/seconds.json``."""


def seconds() -> dict[str, float]:
    """Return how many seconds each test file took in an earlier run."""
    return json.loads(SECONDS.read_text(encoding="utf-8")) if SECONDS.exists() else {}


def minutes(amount: float) -> str:
    """Return a rough duration as text: "less than a minute" or "about 3 min"."""
    return f"about {amount / 60:.0f} min" if amount >= 60 else "less than a minute"


@dataclass
class Estimate:
    """Amount of work of a test run by test file, and how much of it is done.

    Attributes:
        tests: Number of tests by file.
        known: Seconds of an earlier run by file.
        done: Number of finished tests by file.
    """

    tests: Mapping[str, int]
    known: Mapping[str, float]
    done: dict[str, int] = field(default_factory=dict)

    def finish(self, file: str) -> None:
        """Count one finished test of a file."""
        self.done[file] = self.done.get(file, 0) + 1

    @property
    def whole(self) -> float:
        """Return the seconds that all tests take, one after the other."""
        return sum(self._seconds(file) for file in self.tests)

    @property
    def share(self) -> float:
        """Return how much of the whole test run is done, from 0 to 1."""
        done = sum(
            self._seconds(file) * min(1.0, count / self.tests[file])
            for file, count in self.done.items()
            if file in self.tests
        )
        return done / self.whole if self.whole else 1.0

    def left(self, passed: float, workers: int) -> float:
        """Return the estimated remaining seconds of the test run, from its speed so far.

        Args:
            passed: Seconds since the start.
            workers: Number of test processes.
        """
        expected = self.whole * (1 - self.share) / workers
        pace = passed / (self.whole * self.share / workers) if self.share > 0.05 else 1.0
        return expected * max(1.0, pace)

    def _seconds(self, file: str) -> float:
        return self.known.get(file, UNKNOWN)


class Progress:
    """Pytest plugin that prints the progress at the start and about every fifteen seconds."""

    def __init__(self, config: pytest.Config) -> None:
        """Store pytest's configuration; the time is measured from the end of the collection."""
        self.config = config
        self.workers = int(config.getoption("numprocesses", None) or 1)
        self.estimate: Estimate | None = None
        self.begun = self.told = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Store the tests that a worker of pytest-xdist collected.

        All workers collect the same tests.
        """
        if self.estimate is None:
            self._start(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Store the collected tests of a run without pytest-xdist workers."""
        if self.estimate is None and session.items:
            self._start([item.nodeid for item in session.items])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a finished test, and print it if it failed.

        Also print the progress if the last progress line is some seconds old.
        """
        if report.failed:
            self._print(f"failed: {report.nodeid} ({report.when})")
        if report.when != "teardown" or self.estimate is None:
            return
        file = report.nodeid.partition("::")[0]
        self.estimate.finish(file)
        now = time.monotonic()
        if now - self.told >= EVERY:
            self.told = now
            left = minutes(self.estimate.left(now - self.begun, self.workers))
            self._print(f"{self.estimate.share:4.0%}  {file}, {left} left")

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Return no letter for a test's result, because progress lines replace pytest's letters."""
        if report.failed:
            return ("failed" if report.when == "call" else "error"), "", "FAILED"
        if report.when == "call" and report.passed:
            return "passed", "", "PASSED"
        return ("skipped", "", "SKIPPED") if report.skipped else None

    def _start(self, ids: list[str]) -> None:
        tests: dict[str, int] = {}
        for name in ids:
            file = name.partition("::")[0]
            tests[file] = tests.get(file, 0) + 1
        self.estimate = Estimate(tests, seconds())
        self.begun = self.told = time.monotonic()
        length = minutes(self.estimate.whole / self.workers)
        self._print(f"{len(ids):,} tests in {len(tests)} files: {length} on an idle machine")

    def _print(self, line: str) -> None:
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(line)


def read_results(text: str) -> dict[str, float]:
    """Return how many seconds each test file took, from pytest's JUnit file; longest first."""
    found: dict[str, float] = {}
    for case in ElementTree.fromstring(text).iter("testcase"):  # noqa: S314 - our own file
        parts = case.attrib["classname"].split(".")
        file = next(
            ("/".join(parts[:end]) + ".py" for end in range(len(parts), 0, -1)
             if (ROOT / ("/".join(parts[:end]) + ".py")).exists()),
            None,
        )  # fmt: skip
        if file:
            found[file] = found.get(file, 0.0) + float(case.attrib["time"])
    return {
        file: round(amount, 1)
        for file, amount in sorted(found.items(), key=lambda item: (-item[1], item[0]))
    }


if __name__ == "__main__":
    results = read_results(Path(sys.argv[1]).read_text(encoding="utf-8"))
    SECONDS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
