"""Fixture with one embedded cluster for all platform tests, and their summary line."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.guard import own_name
from tests.proofs.e2e.project import Project, started
from tests.proofs.platform import ways

# Pytest markers of the tests that the summary line counts.
COUNTED = ("platform", "bad_setting")
# Property of a test whose value is a line with numbers; the line is printed after the tests.
TOLD = "told"
_results: dict[str, dict[str, bool]] = {mark: {} for mark in COUNTED}
_told: list[str] = []
_failed = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a project with a running embedded cluster, before the stack's first deployment."""
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
    """Destroy the stack after a failed test, so that the next test starts without a stack."""
    if item.stash.get(_failed, False):
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Project):
                value.command("destroy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Copy each test's pytest markers into its properties.

    The keywords of a test report can't be used, because they also contain folder names.
    """
    for item in items:
        item.user_properties += [(mark, True) for mark in COUNTED if item.get_closest_marker(mark)]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcomes of platform tests, including those in other pytest-xdist processes."""
    said = dict(report.user_properties)
    for mark in COUNTED:
        if mark in said:
            passed = _results[mark].get(report.nodeid, True)
            # A skipped test proves nothing, so it doesn't count as passed.
            _results[mark][report.nodeid] = passed and report.passed
    if report.when == "call" and TOLD in said:
        _told.append(str(said[TOLD]))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the summary line of `make test-platform`, if platform tests ran."""
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
