"""One embedded cluster for all platform tests, and the line that says what was shown."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.e2e.project import Project, started

from . import ways

#: Marks of tests that the last line counts, each by its result.
COUNTED = ("platform", "bad_setting")
#: Lines that tests leave for the end: figures.
told: list[str] = []
_results: dict[str, dict[str, bool]] = {mark: {} for mark in COUNTED}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose embedded cluster runs and whose stack is not up yet."""
    stack = f"platform-{os.getpid()}"
    made = Project.make(tmp_path_factory.mktemp("platform"), stack)
    made.write(ways.declared(stack, "device-plugin"))
    with started(made):
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None] | pytest.TestReport:
    report: pytest.TestReport = yield  # type: ignore[misc, assignment]
    for mark in COUNTED:
        if item.get_closest_marker(mark):
            passed = _results[mark].get(item.nodeid, True)
            # A skipped test shows nothing, so it does not count as shown.
            _results[mark][item.nodeid] = passed and report.passed
    return report


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last line of `make test-platform`; a slice of the tests says nothing of the whole."""
    for line in told:
        terminalreporter.write_line(line)
    platforms, settings = (_results[mark] for mark in COUNTED)
    if platforms:
        terminalreporter.write_line(
            f"platform: {sum(platforms.values())} of {len(platforms)} platforms up and gone, "
            f"{sum(settings.values())} of {len(settings)} bad settings refused"
        )
