"""The last line of `make test-versions`: what was shown of each version that is claimed.

A test counts by ``@pytest.mark.versions(kind, name)``, and one that shows several by
``record_property("versions", (kind, name, passed))``. All of one kind and name have to pass; tests
of one border have one id.
``kind`` is one of the keys of `PHRASES`, or any other for a test that runs without being counted;
``name`` is the version, the bulletin, the heal or the claim, by default the test itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import pytest

MARK = "versions"
ROOT = Path(__file__).resolve().parents[2]
Results = Mapping[str, Mapping[str, bool]]
"""By name, then by test: whether it passed."""


def _kubernetes(results: Results) -> str:
    up = sorted(name for name in results if all(results[name].values()))
    down = sorted(results.keys() - up)
    return " ".join(["Kubernetes", *up, "up and down", *(["but not", *down] if down else [])])


def _of(results: Results) -> str:
    return f"{sum(all(each.values()) for each in results.values())} of {len(results)}"


def _borders(results: Results) -> str:
    borders: dict[str, bool] = {}
    for tests in results.values():
        for test, passed in tests.items():  # a test for each side, and for each place
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
"""What the line says of each kind, in its order."""


@dataclass(eq=False)  # pytest keeps plugins by identity
class Count:
    """Pytest plugin: counts the tests with the mark, in other processes too."""

    seen: dict[str, dict[str, dict[str, bool]]] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Let a test's mark travel with its result."""
        for item in items:
            if marker := item.get_closest_marker(MARK):
                kind, name = (*marker.args, item.nodeid)[:2]
                item.user_properties.append((MARK, (kind, name)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the outcome of a test, with that of its fixtures; a skipped one shows nothing."""
        for key, told in report.user_properties:
            if key == MARK:
                kind, name, *outcome = told  # type: ignore[misc]
                tests = self.seen.setdefault(kind, {}).setdefault(name, {})
                passed = all(outcome) if outcome else report.outcome == "passed"
                tests[report.nodeid] = tests.get(report.nodeid, True) and passed

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the last line, if the run was one of versions alone."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None and self.seen and config.getoption("markexpr") == MARK:
            phrases = [say(self.seen[kind]) for kind, say in PHRASES.items() if kind in self.seen]
            reporter.write_line(f"versions: {', '.join(phrases)}")
