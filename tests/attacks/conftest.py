"""The plugins' own folder on the path, and the line that says what was shown."""

from __future__ import annotations

from collections import Counter

import pytest

import tests.plugins.rig  # noqa: F401 -- puts the plugins' folder on the path, as their processes do

_results: dict[str, str] = {}
_inputs: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts results, also those of other processes."""
    if not report.nodeid.startswith("tests/attacks/"):
        return
    if report.when == "call" or report.outcome != "passed":
        _results[report.nodeid] = report.outcome
    if report.when == "teardown":
        _inputs["inputs"] += int(dict(report.user_properties).get("inputs", 0))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of `make test-attacks`; a slice of the tests says nothing of the whole."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not _results or hasattr(config, "workerinput"):
        return
    outcomes = Counter(_results.values())
    files = {nodeid.partition("::")[0] for nodeid in _results}
    reporter.write_line(
        f"attacks: {outcomes['passed']} of {len(_results)} refused, {outcomes['skipped']} skipped, "
        f"in {len(files)} files; {_inputs['inputs']} generated inputs"
    )
