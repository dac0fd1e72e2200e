"""Pytest hooks and fixtures for all tests: cleanup of processes, counts of skipped tests."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from gpu_cluster_lab.simulator.hosts.rootfs import NoDebootstrap
from tests import guard, progress, promises
from tests.proofs.advice import count as advice
from tests.proofs.clusters import count as clusters
from tests.proofs.documents import count as documents
from tests.proofs.ha import count as ha
from tests.proofs.logins import count as logins
from tests.proofs.versions import count as versions

pytest_plugins = ("pytester", "tests.pulumi_env")

OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""Variables that `make` sets for its commands; a user's shell has none of them."""

# Generating examples takes longer on a busy machine, so hypothesis has no time limit.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any")


@pytest.fixture(scope="module", autouse=True)
def earlier_garbage_is_collected() -> None:
    """Collect the garbage of earlier test modules before the tests of a module start.

    If CPython 3.11.7 cleans up an earlier test's futures during `ast.parse`, the parse fails with
    "AST constructor recursion depth mismatch".
    """
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def _guard() -> None:
    guard.start()


@pytest.fixture
def no_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off resource hooks and the inspection, because Pulumi's mocks can't run them.

    Other tests check hooks and the inspection with the real engine.
    """
    # Pulumi's SDK is imported here, because the import is slow and most tests don't need it.
    import pulumi

    none = pulumi.ResourceHookBinding()
    monkeypatch.setattr("gpu_cluster.hooks.binding", lambda *_, **__: none)
    monkeypatch.setattr("gpu_cluster.hooks.around", lambda *_, **__: none)
    monkeypatch.setenv("GPU_CLUSTER_INSPECTION", "off")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Iterator[None]:
    """Skip a test if its fixtures need a root file system that this machine can't create."""
    try:
        yield
    except NoDebootstrap as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test if it needs a root file system that this machine can't create."""
    try:
        yield
    except NoDebootstrap as error:
        pytest.skip(str(error))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--progress", action="store_true", help="print how far the run is, and how much is left"
    )


def pytest_configure(config: pytest.Config) -> None:
    # With these variables, the `make` that a test starts prints the folders that it enters.
    for name in OF_MAKE:
        os.environ.pop(name, None)
    config.pluginmanager.register(promises.Count())
    config.pluginmanager.register(advice.counting())
    config.pluginmanager.register(clusters.counting())
    for plugin in documents.counting():
        config.pluginmanager.register(plugin)
    config.pluginmanager.register(ha.counting())
    config.pluginmanager.register(logins.counting())
    config.pluginmanager.register(versions.counting())
    if config.getoption("progress") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(progress.Progress(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the sentence of a test's mark `promise` to its report.

    The report also brings the sentence from a worker process of pytest-xdist to the main process.
    """
    for item in items:
        if marker := item.get_closest_marker("promise"):
            item.user_properties.append(("promise", marker.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons[str(report.longrepr[2]).removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("skipped, by reason")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:5} {reason}")
