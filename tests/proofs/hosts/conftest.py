"""Fixtures with simulated hosts, and the plugin that counts results for the summary line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_cluster_lab.simulator.hosts import namespaced
from tests.proofs.hosts.docker import start_docker
from tests.proofs.hosts.engines import start_crio
from tests.proofs.hosts.machine import Running, start, temporary_cluster


@pytest.fixture
def cluster() -> Iterator[str]:
    """Yield a name for a cluster of simulated hosts that only one test uses."""
    with temporary_cluster() as name:
        yield name


@pytest.fixture
def namespaces(cluster: str) -> None:
    """Skip the test, with the reason, if this machine can't run hosts in Linux namespaces."""
    reason = namespaced.reason_against(cluster)
    if reason:
        pytest.skip(f"hosts in namespaces: {reason}")


@pytest.fixture
def host(cluster: str, namespaces: None) -> Running:
    """Return a running simulated host `gpu-1` in its own Linux namespaces."""
    return start(cluster, "gpu-1", mode="namespaces")[0]


@pytest.fixture
def plain_host(cluster: str) -> Running:
    """Return a running simulated host `gpu-1` without namespaces: a process with a scratch root."""
    return start(cluster, "gpu-1", mode="plain")[0]


@pytest.fixture
def docker(cluster: str, namespaces: None) -> Running:
    """Return a host that runs Docker and has a daemon.json; Docker's data is on a tmpfs."""
    return start_docker(cluster)


@pytest.fixture
def crio(host: Running) -> Running:
    """Return a host that runs CRI-O with the packaged settings and a site-specific file."""
    return start_crio(host)


class Proof:
    """Pytest plugin that counts the results of host tests and prints them in the summary line."""

    def __init__(self) -> None:
        self.cases: dict[str, bool] = {}
        self.faults: dict[str, tuple[str, str, bool]] = {}
        self.refusals: dict[str, dict[str, bool]] = {"real part": {}, "fake": {}}
        self.left = 0
        self.situations: dict[str, bool] = {}
        self.upgraded: dict[str, bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count each test once: by the result of its call, or by a setup that failed."""
        if report.when == "teardown" or (report.when == "setup" and report.outcome == "passed"):
            return
        said = dict(report.user_properties)
        if "containerd_case" in report.keywords:
            self.cases[report.nodeid] = report.outcome == "passed"
        if "situation" in said:
            name = str(said["situation"])
            passed = report.outcome == "passed"
            self.situations[name] = self.situations.get(name, True) and passed
        if "upgraded" in said and report.outcome != "skipped":
            self.upgraded[str(said["upgraded"])] = report.outcome == "passed"
        if "refusal_by" in said:
            self.refusals[str(said["refusal_by"])][report.nodeid] = report.outcome == "passed"
        if "host_fault" in report.keywords:
            name = str(said.get("host_fault", report.nodeid))
            text = str(said.get("host_fault_said", "nothing"))
            self.faults[report.nodeid] = (name, text, report.outcome == "passed")
        self.left += int(said.get("files_left", 0))  # type: ignore[call-overload]

    def of_the_world(self) -> str:
        """Return the count of the situations of the world, each with all its tests."""
        corrected = sum(name.endswith(" corrected") for name in self.situations)
        return (
            f"{sum(self.situations.values())} of {len(self.situations)} situations of the world "
            f"({corrected} verdicts corrected)"
        )

    def of_upgrades(self) -> str:
        """Return the count of systems after their own upgrade, each with all its cases."""
        cases = [(name.partition(",")[0], right) for name, right in self.upgraded.items()]
        wrong = {system for system, right in cases if not right}
        systems = {system for system, _ in cases}
        archives = sum("archive" in name for name, right in self.upgraded.items() if right)
        return (
            f"{len(systems - wrong)} of {len(systems)} systems right after their own upgrade and "
            f"boot ({archives} real archive)"
        )

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a table of the faults that tests have injected, with the results."""
        width = max((len(name) for name, _, _ in self.faults.values()), default=0)
        for name, said, healed in self.faults.values():
            result = "healed" if healed else "NOT HEALED"
            terminalreporter.write_line(f"fault: {name:{width}}  {result}  said: {said}")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print the summary line with the totals after pytest's own summary."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        real, fakes = self.refusals.values()
        counted = (self.cases, self.faults, real, fakes, self.situations, self.upgraded)
        if reporter is None or not any(counted):
            return
        healed = sum(healed for _, _, healed in self.faults.values())
        reporter.write_line(
            f"hosts: {sum(self.cases.values())} of {len(self.cases)} containerd cases, "
            f"{self.of_the_world()}, {self.of_upgrades()}, "
            f"{sum(real.values())} of {len(real)} refusals by real parts, "
            f"{sum(fakes.values())} of {len(fakes)} by fakes with a source, "
            f"{healed} of {len(self.faults)} faults healed, {self.left} files left"
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Copy each test's marker `refusal` into the properties of the test's report.

    pytest-xdist sends these properties from its worker processes to the main process.
    """
    for item in items:
        marker = item.get_closest_marker("refusal")
        if marker:
            item.user_properties.append(("refusal_by", marker.kwargs["by"]))


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Proof())
