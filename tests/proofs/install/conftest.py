"""Summary line of `make test-install`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import pytest

from gpu_cluster.commands.verbs import VERBS
from gpu_cluster.settings.platform import NAMES as PLATFORMS
from maintenance.constraints import constraints
from tests.fixtures.wheels import build
from tests.proofs.install.site import (
    ANSWERED,
    RAN,
    WRITTEN,
    Site,
    index,
    install,
    make_cache,
    make_site,
    use_free_ports,
    watch,
)

PACKAGES, FILES, UP, MOVED, TOLD, CLONE = "packages", "files", "up", "moved", "told", "clone"
VERB, DOCUMENT = "verb", "document"
"""Properties by which a test says what it showed."""

_shown: dict[str, list[str]] = {}
_failed: set[str] = set()
_files: set[str] = set()


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the wheels as a release builds them, by package."""
    return build(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def address(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of an index with the wheels."""
    with index(wheels.values(), tmp_path_factory.mktemp("index")) as served:
        yield served


@pytest.fixture(scope="session")
def running(site: Site) -> Site:
    """Return the site with its stack `dev` up."""
    site.answers("up")
    return site


@pytest.fixture(scope="session")
def constraints_file(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the constraints file of the release."""
    file = tmp_path_factory.mktemp("release") / "constraints.txt"
    file.write_text(constraints(wheels.values()))
    return file


@pytest.fixture(scope="session")
def site(
    constraints_file: Path, address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Yield a site that `init` wrote; its embedded cluster is removed at the end."""
    place = tmp_path_factory.mktemp("install")
    made = make_site(place, make_cache(place / "cache"))
    install(made.venv, address, ("gpu-rules", "gpu-cluster", "gpu-cluster-lab"))
    watch(made)
    options = ("--stacks", "prod,lab", "--owners", "@org/gpu")
    made.succeeds("init", *options, "--constraints", str(constraints_file))
    files = [path.relative_to(made.folder) for path in made.folder.rglob("*") if path.is_file()]
    WRITTEN.update(str(path) for path in files if path.parts[0] != "venv")
    use_free_ports(made)
    yield made
    made.run("gpu-cluster", "down")
    assert not made.opened.exists(), made.opened.read_text()


@pytest.fixture(autouse=True)
def ran(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Record the verbs that a test ran, also for a test in another process."""
    yield
    for name, verbs in ((VERB, RAN), (DOCUMENT, ANSWERED)):
        for verb in sorted(verbs):
            record_property(name, verb)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what each test that passed showed, also of tests that ran in other processes."""
    _files.add(Path(report.nodeid.partition("::")[0]).name)
    if report.failed:
        _failed.add(report.nodeid)
    elif report.when == "teardown" and report.nodeid not in _failed:
        for name, value in report.user_properties:
            _shown.setdefault(name, []).append(str(value))


def shortfalls(shown: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield what the tests did not show, though the proof claims it.

    Args:
        shown: What the tests showed, by the names of their properties.
    """
    every = {verb.name for verb in VERBS}
    data = {verb.name for verb in VERBS if verb.has_data}
    for what, missing in (
        ("only their help", every - {*shown.get(VERB, ())}),
        ("no JSON document", data - {*shown.get(DOCUMENT, ())}),
    ):
        if missing:
            yield f"{what}: {', '.join(sorted(missing))}"
    if (moved := len({*shown.get(MOVED, ())})) != len(PLATFORMS):
        yield f"stacks moved: {moved} of {len(PLATFORMS)}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a whole run that did not show all that its last line claims."""
    whole = {path.name for path in Path(__file__).parent.glob("test_*.py")} <= _files
    if whole and not session.config.getoption("keyword") and [*shortfalls(_shown)]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the numbers of what ran; what is missing stands above the last line."""
    if UP not in _shown:
        return
    of_clone = ", ".join(_shown.get(CLONE, ["unknown"]))
    every = {verb.name for verb in VERBS}
    ran_verbs = every & {*_shown.get(VERB, [])}
    for line in shortfalls(_shown):
        terminalreporter.write_line(line)
    terminalreporter.write_line(
        f"install: {_shown[PACKAGES][0]} packages, {len(ran_verbs)} of {len(every)} verbs from "
        f"wheels, site of {_shown[FILES][0]} files {', '.join(_shown[UP])}, "
        f"{len(_shown.get(MOVED, []))} of {len(PLATFORMS)} stacks moved with 0 changes, "
        f"{len(_shown.get(TOLD, []))} upgrade told, {of_clone} files of the clone used"
    )
