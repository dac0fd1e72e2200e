"""Settings of all tests, the guard of what they start, and the count of what was skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from lab.simulator.hosts.rootfs import NoDebootstrap
from tests import guard, progress, promises
from tests.versions.count import Count as Versions

pytest_plugins = ("pytester", "tests.pulumi_env")

# How fast examples come depends on what else the machine does.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


@pytest.fixture(scope="session", autouse=True)
def _guard() -> None:
    guard.start()


@pytest.fixture
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mocked monitor can't call back, and nothing is there to be inspected.

    What hooks and the inspection do is tested with the real engine.
    """
    import pulumi  # most tests need no SDK

    none = pulumi.ResourceHookBinding()
    monkeypatch.setattr("components.hooks.binding", lambda *_, **__: none)
    monkeypatch.setenv("GPU_CLUSTER_INSPECTION", "off")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """A host of a system whose root this machine can't make is a reason to skip."""
    try:
        yield
    except NoDebootstrap as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """As in the setup."""
    try:
        yield
    except NoDebootstrap as error:
        pytest.skip(str(error))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--progress", action="store_true", help="print how far the run is, and how much is left"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(promises.Count())
    config.pluginmanager.register(Versions())
    if config.getoption("progress") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(progress.Progress(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test's promise travels with its result, from another process too."""
    for item in items:
        if marker := item.get_closest_marker("promise"):
            item.user_properties.append(("promise", marker.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped for each reason."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5} {reason}")
