"""Summary line of `make test-install`."""

from __future__ import annotations

import pytest

PACKAGES, VERBS, FILES, UP, MOVED, CLONE = "packages", "verb", "files", "up", "moved", "clone"
"""Properties by which a test says what it showed."""

_shown: dict[str, list[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what each test showed, also of tests that ran in other processes."""
    if report.when == "call":
        for name, value in report.user_properties:
            _shown.setdefault(name, []).append(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers of what ran."""
    if UP not in _shown:
        return
    verbs = [value for value in _shown.get(VERBS, []) if value.endswith(" works")]
    of_clone = ", ".join(_shown.get(CLONE, ["unknown"]))
    terminalreporter.write_line(
        f"install: {_shown[PACKAGES][0]} packages, {len(verbs)} of {len(_shown.get(VERBS, []))} "
        f"verbs from wheels, site of {_shown[FILES][0]} files {', '.join(_shown[UP])}, "
        f"{len(_shown.get(MOVED, []))} stacks moved with 0 changes, "
        f"{of_clone} files of the clone used"
    )
