"""One embedded cluster for all platform tests, and the line that says what was shown."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.project import Project, started
from tests.guard import own_name
from tests.platform import ways

#: Marks of tests that the last line counts, each by its result.
COUNTED = ("platform", "bad_setting")
#: Property of a test's report: a line with figures, kept for the end.
TOLD = "told"
_results: dict[str, dict[str, bool]] = {mark: {} for mark in COUNTED}
_told: list[str] = []
_failed = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose embedded cluster runs and whose stack is not up yet."""
    stack = own_name("platform")
    made = Project.make(tmp_path_factory.mktemp("platform"), stack)
    made.write(ways.declared(stack, "device-plugin"))
    with started(made):
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_failed] = report.when == "call" and report.failed
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What a failed test left up would spoil the next one."""
    if item.stash.get(_failed, False):
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Project):
                value.command("destroy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks go as properties: a report's keywords hold the names of folders, too."""
    for item in items:
        item.user_properties += [(mark, True) for mark in COUNTED if item.get_closest_marker(mark)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Counts results, also those of other processes."""
    said = dict(report.user_properties)
    for mark in COUNTED:
        if mark in said:
            passed = _results[mark].get(report.nodeid, True)
            # A skipped test shows nothing, so it does not count as shown.
            _results[mark][report.nodeid] = passed and report.passed
    if report.when == "call" and TOLD in said:
        _told.append(str(said[TOLD]))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line of `make test-platform`; a slice of the tests says nothing of the whole."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    platforms, settings = (_results[mark] for mark in COUNTED)
    if reporter is None or not platforms:
        return
    for line in _told:
        reporter.write_line(line)
    reporter.write_line(
        f"platform: {sum(platforms.values())} of {len(platforms)} platforms up and gone, "
        f"{sum(settings.values())} of {len(settings)} bad settings refused"
    )
