"""Fixture with a project whose API server writes an audit log, and the tests' summary line."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from gpu_cluster_lab.simulator.control_plane import AUDIT
from tests.guard import own_name
from tests.proofs.e2e.project import Project, started
from tests.proofs.validation import ways

OUTCOME, TOUCHED, ADDED = "outcome", "busy-touched", "added"
"""Properties of test reports: a result, the number of busy GPUs touched, and a sentence."""
LIMIT = 600
"""Seconds that one command may run; some tests have 500 nodes on a busy machine."""

_outcomes: list[tuple[str, bool]] = []
_touched: list[int] = []
_added: list[str] = []


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Yield a project with a running embedded cluster, before the stack's first deployment."""
    made = Project.make(tmp_path_factory.mktemp("validation"), own_name("validation"))
    made.environment[AUDIT] = "1"
    made.write(ways.declared(made.stack, ways.WAYS["exclusive"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.proofs.e2e.project.LIMIT", LIMIT)
        with started(made):
            yield made


@pytest.fixture
def outcome(record_property: Callable[[str, object], None]) -> Callable[[str, str, bool], None]:
    """Return a function that checks a validation result and records it for the summary line."""

    def keep(way: str, name: str, holds: bool) -> None:
        record_property(OUTCOME, f"{way}|{name}|{holds}")
        assert holds, f"{way}: {name}"

    return keep


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the numbers that tests have recorded for the summary line."""
    if report.when != "call":
        return
    for key, value in report.user_properties:
        if key == OUTCOME:
            way, _, holds = str(value).split("|")
            _outcomes.append((way, holds == "True"))
        elif key == TOUCHED:
            _touched.append(int(str(value)))
        elif key == ADDED:
            _added.append(str(value))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Print the summary line of `make test-validation`, about the tests that ran."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not _outcomes:
        return
    reporter.write_line(
        f"validation: {sum(holds for _, holds in _outcomes)} of {len(_outcomes)} outcomes in "
        f"{len({way for way, _ in _outcomes})} ways, {sum(_touched)} busy GPUs touched, "
        f"{', '.join(_added) or 'no node added'}"
    )
