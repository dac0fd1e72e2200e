"""The plugins' own folder on the path, and the line that says what was shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

import tests.plugins.rig  # noqa: F401 -- puts the plugins' folder on the path, as their processes do
from lab.benchmarks.api_server import running

STATIC = "static"
"""Marks checks of what workflows and other files say, which no run of ours can show."""

_results: dict[str, str] = {}
_static: set[str] = set()
_counts: Counter[str] = Counter()
ATTACKS = "tests/attacks/"
COUNTED = ("inputs", "canaries", "searches", "role rules", "role rules used")
"""Properties that tests record, summed for the last line."""


@pytest.fixture(scope="session")
def api() -> Iterator[httpx.Client]:
    """A real API server and controller manager, no nodes."""
    with running("attacks", controllers=True) as server:
        yield server.client


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts results, also those of other processes."""
    if not report.nodeid.startswith(ATTACKS):
        return
    if report.when == "call" or report.outcome != "passed":
        _results[report.nodeid] = report.outcome
        if STATIC in report.keywords:
            _static.add(report.nodeid)
    if report.when == "teardown":
        properties = dict(report.user_properties)
        _counts.update({name: int(properties.get(name, 0)) for name in COUNTED})


def last_line() -> str:
    """The end of `make test-attacks`: figures of the tests that ran, and of no others."""
    skipped = sum(outcome == "skipped" for outcome in _results.values())
    static = sum(_results[name] == "passed" for name in _static)
    tried = len(_results) - skipped - len(_static)
    passed = sum(outcome == "passed" for outcome in _results.values()) - static
    parts = [f"{passed} of {tried} refused", f"{static} of {len(_static)} static"]
    searched = f"{_counts['canaries']} canaries seen in {_counts['searches']} searches"
    parts.append(searched if _counts["searches"] else "no search for canaries")
    parts.append(f"{_counts['role rules used']} of {_counts['role rules']} role rules used")
    parts.append(f"{_counts['inputs']} inputs")
    return f"attacks: {', '.join(parts)}" + (f", {skipped} skipped" if skipped else "")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Writes the last line; a slice of the tests says nothing of the whole."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and _results and not hasattr(config, "workerinput"):
        reporter.write_line(last_line())
