"""Summary line of `make test-reach`, and an embedded cluster for users' Pulumi programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_cluster_lab.simulator.hosts import host_public_key
from tests.guard import own_name
from tests.proofs.e2e.project import Json, Project, started

LANGUAGE, PART = "language", "part"
"""Properties by which a proof says what it showed."""
REFUSALS = "tests/components/package/test_provider.py::test_a_wrong_input_is_refused_by_its_path"
EVIDENCE = (
    "tests/proofs/reach/test_evidence.py::"
    "test_evidence_of_a_deployed_stack_is_made_twice_and_verified"
)
FORGERIES = "tests/commands/evidence/test_forgeries.py::test_a_forgery_is_refused_by_its_reason"

_outcomes: dict[str, str] = {}
_shown: dict[str, set[str]] = {LANGUAGE: set(), PART: set()}


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Start an embedded cluster with simulated hosts and deploy no stack."""
    project = Project.make(tmp_path_factory.mktemp("reach"), own_name("reach"))
    project.edit(move_hosts)
    with started(project) as made:
        yield made


def move_hosts(cluster: Json) -> None:
    """Move the SSH hosts of a stack file to nodes of a second pool.

    The device plugin does not start on a node whose host is not prepared, and the examples prepare
    no hosts.
    """
    cluster["pools"].append({"name": "with-hosts", "nodes": ["gpu-[5-6]"], "gpusPerNode": 8})
    for name, host in zip(("gpu-5", "gpu-6"), cluster["hosts"], strict=True):
        host |= {"name": name, "hostKey": host_public_key(name)}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the results of tests, including those that ran in other pytest-xdist processes."""
    if report.when != "call" and report.outcome == "passed":
        return
    _outcomes[report.nodeid] = report.outcome
    if report.outcome == "passed":
        for name, value in report.user_properties:
            if name in _shown:
                _shown[name].add(str(value))


def _results(test: str) -> list[str]:
    """Return the results of a test for each of its parameters."""
    return [value for name, value in _outcomes.items() if name.startswith(test)]


def last_line() -> str:
    """Return the summary line of `make test-reach`, with the numbers of the tests that ran."""
    refusals, forgeries = _results(REFUSALS), _results(FORGERIES)
    evidence = "verified" if _outcomes.get(EVIDENCE) == "passed" else "not verified"
    bad = sum(outcome == "failed" for outcome in _outcomes.values())
    skipped = sum(outcome == "skipped" for outcome in _outcomes.values())
    line = (
        f"reach: {len(_shown[LANGUAGE])} languages deploy, change and destroy the component, "
        f"{len(_shown[PART])} parts alone, {refusals.count('passed')} of {len(refusals)} refusals "
        f"by property, evidence {evidence} and {forgeries.count('passed')} of {len(forgeries)} "
        "forgeries refused"
    )
    line += f", {bad} failed" if bad else ""
    return line + (f", {skipped} skipped" if skipped else "")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the summary line after pytest's own."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and _outcomes and not hasattr(config, "workerinput"):
        reporter.write_line(last_line())
