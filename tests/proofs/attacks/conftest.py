"""Fixtures of the attack tests, and the summary line of `make test-attacks`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

import tests.toolchain.plugins.rig  # noqa: F401 -- adds the plugins' folder to sys.path
from lab.benchmarks.api_server import running

STATIC = "static"
"""Pytest marker of checks that only read workflow and other files; no local run can test these."""

_results: dict[str, str] = {}
_static: set[str] = set()
_counts: Counter[str] = Counter()
ATTACKS = "tests/proofs/attacks/"
COUNTED = (
    *("inputs", "canaries", "searches", "role rules", "role rules used"),
    *("objects judged", "objects admitted", "objects free", "readers", "linear readers"),
)
"""Names of the numbers that tests record as properties and that the summary line adds up."""


@pytest.fixture(scope="session")
def api() -> Iterator[httpx.Client]:
    """Start a real API server and controller manager without nodes.

    Yield a client with admin rights.
    """
    with running("attacks", controllers=True) as server:
        yield server.client


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcomes of attack tests, including those in other pytest-xdist processes."""
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
    """Return the summary line of `make test-attacks`, which counts refused attacks and searches."""
    skipped = sum(outcome == "skipped" for outcome in _results.values())
    static = sum(_results[name] == "passed" for name in _static)
    tried = len(_results) - skipped - len(_static)
    passed = sum(outcome == "passed" for outcome in _results.values()) - static
    parts = [f"{passed} of {tried} refused", f"{static} of {len(_static)} static"]
    searched = f"{_counts['canaries']} canaries seen in {_counts['searches']} searches"
    parts.append(searched if _counts["searches"] else "no search for canaries")
    parts.append(f"{_counts['role rules used']} of {_counts['role rules']} role rules used")
    parts.append(f"{_counts['inputs']} inputs")
    if _counts["objects judged"] or _counts["objects admitted"]:
        objects = f"{_counts['objects judged']} and {_counts['objects admitted']} objects"
        parts.append(f"{objects} between two questions: {_counts['objects free']} free")
    if _counts["readers"]:
        parts.append(f"{_counts['linear readers']} of {_counts['readers']} readers linear")
    return f"attacks: {', '.join(parts)}" + (f", {skipped} skipped" if skipped else "")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the summary line of `make test-attacks` after pytest's own, if an attack test ran."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and _results and not hasattr(config, "workerinput"):
        reporter.write_line(last_line())
