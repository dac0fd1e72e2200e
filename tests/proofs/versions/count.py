"""Pytest plugin for the summary line of `make test-versions`: results by claimed version.

A test is counted by the marker `@pytest.mark.versions(kind, name)`; a test of several versions
calls `record_property("versions", (kind, name, passed))`. A name counts as passed if all its tests
pass. Tests of one version border of a security bulletin have the same id.

`kind` is a key of `PHRASES`; a test with another kind runs without being counted. `name` is a
version, a bulletin, a repair or a claim; the default is the test's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

MARK = "versions"
ROOT = Path(__file__).resolve().parents[3]
Results = Mapping[str, Mapping[str, bool]]
"""Test results: name, then test id, then whether the test passed."""


def _kubernetes(results: Results) -> str:
    up = sorted(name for name in results if all(results[name].values()))
    down = sorted(results.keys() - up)
    return " ".join(["Kubernetes", *up, "up and down", *(["but not", *down] if down else [])])


def _of(results: Results) -> str:
    return f"{sum(all(each.values()) for each in results.values())} of {len(results)}"


def _borders(results: Results) -> str:
    borders: dict[str, bool] = {}
    for tests in results.values():
        # A version border of a security bulletin has a test for each side, and for each place in
        # the code that applies the border.
        for test, passed in tests.items():
            border = test.rpartition("[")[2]
            borders[border] = borders.get(border, True) and passed
    return f"{_of(results)} bulletins applied at {sum(borders.values())} of {len(borders)} borders"


def _past(results: Results) -> str:
    return f"{sum(not all(each.values()) for each in results.values())} claims past their end"


PHRASES: Mapping[str, Callable[[Results], str]] = MappingProxyType(
    {
        "kubernetes": _kubernetes,
        "containerd": lambda results: f"{_of(results)} containerd",
        "bulletin": _borders,
        "heal": lambda results: f"{_of(results)} heals under the next provider",
        "claim": _past,
    }
)
"""For each kind, the function that returns its part of the summary line, in this order."""


@dataclass(eq=False)  # Pytest compares plugins by identity, so the class must not define equality.
class Count:
    """Pytest plugin that counts tests with the marker `versions`, in all test processes."""

    seen: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Copy each test's marker `versions` into the properties of its report."""
        for item in items:
            if marker := item.get_closest_marker(MARK):
                kind, name = (*marker.args, item.nodeid)[:2]
                item.user_properties.append((MARK, (kind, name)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the result of a test and its fixtures; a skipped test counts as failed."""
        for key, told in report.user_properties:
            if key == MARK:
                kind, name, *outcome = told  # type: ignore[misc]
                tests = self.seen.setdefault(kind, {}).setdefault(name, {})
                passed = all(outcome) if outcome else report.outcome == "passed"
                tests[report.nodeid] = tests.get(report.nodeid, True) and passed

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the summary line if only tests of versions were selected."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self.seen and config.getoption("markexpr") == MARK:
            phrases = [say(self.seen[kind]) for kind, say in PHRASES.items() if kind in self.seen]
            reporter.write_line(f"versions: {', '.join(phrases)}")
