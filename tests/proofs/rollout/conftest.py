"""Fixtures of the rollout tests, and the pytest plugin that prints their summary line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpu_cluster.nodes import drain
from lab.benchmarks.measure import RESULTS
from tests.guard import own_name
from tests.proofs.rollout.site import Site

ROLES = {
    "cp-1": "control-plane",
    "gpu-1": "gpu-worker",
    "gpu-2": "gpu-worker",
    "gpu-3": "gpu-worker",
}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    """Yield a rollout test site with three workers and one control-plane host."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drain, "PAUSE", 0.1)
        patch.setenv("KUBECONFIG", "")
        made = None
        try:
            made = Site(own_name("rollout"), ROLES)
            yield made
        finally:
            if made is not None:
                made.close()


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Record how many hosts a test rolled out, and how many pods it lost without permission."""
    if "site" not in request.fixturenames:
        yield
        return
    site: Site = request.getfixturevalue("site")
    before = site.begun, site.ended, site.unconsented
    yield
    after = site.begun, site.ended, site.unconsented
    begun, ended, unconsented = (b - a for a, b in zip(before, after, strict=True))
    properties = request.node.user_properties
    properties += [("begun", begun), ("ended", ended), ("unconsented", unconsented)]


class Proof:
    """Pytest plugin that counts the results of rollout tests and prints the summary line."""

    def __init__(self) -> None:
        self.rolls = [0, 0]
        self.kills = [0, 0]
        self.bare = [0, 0]
        self.upgraded = [0, 0]
        self.unconsented = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test by its reports.

        The last report also has the numbers that fixtures recorded.
        """
        said = dict(report.user_properties)
        if report.when == "call":
            for name, count in (
                ("test_killed", self.kills),
                ("upgrade_that_was_killed", self.kills),
                ("hosts_that_were_bare", self.bare),
                ("one_up_brings_control_plane_then_worker", self.upgraded),
            ):
                if name in report.nodeid and "of_a_killed" not in report.nodeid:
                    count[0] += report.outcome == "passed"
                    count[1] += 1
        if report.when == "teardown":
            self.rolls[0] += int(str(said.get("ended", 0)))
            self.rolls[1] += int(str(said.get("begun", 0)))
            self.unconsented += int(str(said.get("unconsented", 0)))

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the summary line of the rollout tests after pytest's own."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is None or not (self.rolls[1] or self.kills[1]):
            return
        newest = max(RESULTS.glob("B8*.json"), default=None, key=lambda file: file.stat().st_mtime)
        figure = "not measured"
        if newest is not None:
            points = json.loads(newest.read_text())["points"].values()
            figure = f"{max(point['ratio'] for point in points):.2f}"
        bare = f"{self.bare[0]} of {self.bare[1]} bare clusters, " if self.bare[1] else ""
        if self.upgraded[1]:
            bare += f"{self.upgraded[0]} of {self.upgraded[1]} real clusters upgraded, "
        reporter.write_line(
            f"rollout: {bare}{self.rolls[0]} of {self.rolls[1]} rolls, "
            f"{self.kills[0]} of {self.kills[1]} kills resumed, "
            f"{self.unconsented} pods evicted without consent, B8 {figure}"
        )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Proof())
