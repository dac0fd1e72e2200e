"""Mutation test of `gpu_rules.rules` and `gpu_rules.kube`: does a test fail when code changes?

`python -m tests.proofs.rules.mutate [--every N] [--module NAME]`. By default every 20th mutant is
tested, from a random one on, and with FULL=1 each. mutmut makes all mutants in one copy of the
sources, with a switch between them. For each mutant, a forked process that has already
loaded the tests runs the tests that call the changed function. These are the table-driven tests:
each case builds a manifest and runs the rules, without engine and API server. mutmut does not
mutate functions with a decorator, such as those that cache results.

Results are stored per module, so several partial runs (`--module`, `--minutes`) add up to a full
run. Mutants that survive because the change has no visible effect are listed with the reason in
`equivalent.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.fixtures.programs import run_program
from tests.policies.rules.messages import TESTS
from tests.proofs.rules import results
from tests.proofs.rules.sample import FULL, SEED

ROOT = Path(__file__).parents[3]
KUBE = ROOT / "tests" / "policies" / "kube"
LIMIT = 20
"""Limit of CPU time for all tests of one mutant, in seconds; it also ends mutants that never stop.
"""
MOST = 0.05
"""Share of mutants that may survive."""
SETTINGS = """
[tool.mutmut]
source_paths = ["src"]
only_mutate = ["src/gpu_rules/kube/*", "src/gpu_rules/rules/*", "src/gpu_rules/rules/*/*"]
use_git_change_detection = false
[tool.pytest.ini_options]
pythonpath = [".", "src"]
"""
CONFTEST = """
from hypothesis import settings

settings.register_profile("any", deadline=None)
settings.load_profile("any")
"""
"""Replaces the tests' conftest.py, which imports what other tests start."""
EQUIVALENT = Path(__file__).with_name("equivalent.json")
"""Reasons why no test can detect a mutant, by the mutant's name."""
GENERATE = "from mutmut.__main__ import *; copy_src_dir(); create_mutants(2)"


def prepare(folder: Path) -> list[str]:
    """Copy sources and tests into a folder, create all mutants, and return their names."""
    # mutmut names mutants by paths, and leaves out a first folder `src`.
    shutil.copytree(ROOT / "policies", folder / "src", ignore=_caches)
    (folder / "pyproject.toml").write_text(SETTINGS)
    _run(folder, "-c", GENERATE)
    mutants = folder / "mutants"
    (mutants / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "rules.md", mutants / "docs")
    for folder, names in _tests().items():
        (mutants / folder).mkdir(parents=True)
        (mutants / folder.parent / "__init__.py").touch()
        for name in names:
            shutil.copy(ROOT / folder / name, mutants / folder)
    (mutants / "pyproject.toml").write_text(SETTINGS)
    (mutants / "tests" / "__init__.py").touch()
    (mutants / "tests" / "conftest.py").write_text(CONFTEST)
    statuses: list[str] = []
    for file in sorted(mutants.glob("src/**/*.meta")):
        statuses += json.loads(file.read_text())["exit_code_by_key"]
    return [name for name in statuses if not _makes_cel(name)]


def _tests() -> dict[Path, list[str]]:
    """Return the files that the tests need, by the folder into which they are copied."""
    own = [*(f"{name}.py" for name in TESTS), "cases.py", "messages.py", "messages.json"]
    return {
        Path("tests", "policies", "kube"): [path.name for path in KUBE.iterdir() if path.is_file()],
        Path("tests", "policies", "rules"): [*own, "__init__.py"],
        Path("tests", "proofs", "rules"): ["mutate.py", "results.py", "sample.py", "__init__.py"],
        Path("tests", "fixtures"): ["programs.py", "__init__.py"],
    }


def _makes_cel(name: str) -> bool:
    """Check that a function generates CEL, which only tests with an API server can check."""
    return name.startswith("gpu_rules.rules.cel.") or "_cel__mutmut_" in name


def _caches(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]


def _run(folder: Path, *arguments: str, lines: str = "") -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    env["PYTHONPATH"] = str(folder / "src")
    done = run_program(
        [sys.executable, *arguments], cwd=folder, env=env, input=lines, timeout=4 * 3600
    )
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def run(every: int, processes: int, minutes: float, modules: list[str]) -> dict[str, Any]:
    """Test each `every`-th mutant, and return the results by module, the largest module first."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        folder = Path(temporary)
        names = [n for n in prepare(folder) if not modules or _module(n) in modules]
        names = names[random.Random(SEED).randrange(every) :: every]  # noqa: S311
        sizes = Counter(map(_module, names))
        names.sort(key=lambda name: (-sizes[_module(name)], _module(name)))
        parts = [names[start::processes] for start in range(processes)]
        judge = ("-m", "tests.proofs.rules.mutate", "--judge", f"--minutes={minutes}")

        def judged(part: list[str]) -> str:
            return _run(folder / "mutants", *judge, lines="\n".join(part))

        with ThreadPoolExecutor(processes) as pool:
            outputs = list(pool.map(judged, parts))
    verdicts = dict(
        line.split(" ")[1:] for output in outputs for line in output.splitlines()
        if line.startswith("verdict ")
    )  # fmt: skip
    figures: dict[str, dict[str, Any]] = {}
    for name, verdict in sorted(verdicts.items()):
        figure = figures.setdefault(_module(name), {"mutants": 0, "every": every, "survived": []})
        figure["mutants"] += 1
        if verdict == "survived":
            figure["survived"].append(name)
    return {
        module: figure for module, figure in figures.items() if figure["mutants"] == sizes[module]
    }


def _module(name: str) -> str:
    """Return the first module below `gpu_rules.rules` or `gpu_rules.kube` in a mutant's name."""
    return name.split(".")[2]


def document(modules: dict[str, Any]) -> dict[str, Any]:
    """Return the results of all modules; surviving mutants with an explanation are listed apart."""
    reasons = json.loads(EQUIVALENT.read_text())
    survived = [name for module in modules.values() for name in module["survived"]]
    mutants = sum(module["mutants"] for module in modules.values())
    whole = {name for name, figures in modules.items() if figures["every"] == 1}
    return {
        "mutants": mutants,
        "killed": mutants - len(survived),
        "explained": {name: reasons[name] for name in survived if name in reasons},
        "unexplained": [name for name in survived if name not in reasons],
        "stale": [n for n in reasons if _module(n) in whole and n not in survived],
        "modules": modules,
    }


class Judge:
    """Pytest plugin that runs the collected tests for each mutant in a forked process."""

    def __init__(self, names: list[str], minutes: float) -> None:
        self.names = names
        self.end = time.monotonic() + 60 * minutes

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        cases = [item for item in session.items if _alone(item)]
        callers: dict[str, list[pytest.Item]] = {}
        # Collect the tests that call each function in a first run without mutants. This run also
        # loads all imports.
        for item in cases:
            for function in _called(item):
                callers.setdefault(function, []).append(item)
        for name in self.names:
            if time.monotonic() > self.end:
                break
            here = callers.get(name.rpartition("__mutmut_")[0], [])
            killer = _killer(name, here)
            # Run this test first for the next mutants of the same function: it will probably fail
            # for them as well.
            if killer is not None:
                here.insert(0, here.pop(killer))
            sys.stdout.write(f"verdict {name} {'survived' if killer is None else 'killed'}\n")
            sys.stdout.flush()
        session.items.clear()


def _alone(item: pytest.Item) -> bool:
    """Check that a test needs no fixtures, only its parameters."""
    names = set(item.fixturenames) - {"request"}  # type: ignore[attr-defined]
    return names <= set(_parameters(item)) and "refused_at_once" not in item.name


def _parameters(item: Any) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _call(item: Any) -> None:
    item.obj(**_parameters(item))


def _called(item: pytest.Item) -> set[str]:
    """Return the names of the functions that a test calls."""
    from mutmut.mutation.trampoline import set_mutant_under_test
    from mutmut.state import state

    state()._stats.clear()
    _forget()
    set_mutant_under_test("stats")
    _call(item)
    return set(state()._stats)


def _forget() -> None:
    """Empty the caches of all functions in the modules of the rules."""
    for module in [loaded for key, loaded in sys.modules.items() if key.startswith("gpu_rules")]:
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _killer(name: str, cases: list[pytest.Item]) -> int | None:
    """Return the index of the first test that fails with a mutant, or None if all pass."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _try(name, cases, writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        # The child process writes one byte for each test that it starts, so that the failing test
        # is known.
        begun = len(pipe.read())
    _, status = os.waitpid(child, 0)
    return None if status == 0 else max(begun - 1, 0)


def _try(name: str, cases: list[pytest.Item], writer: int) -> NoReturn:
    """Run tests in this forked process and exit; the exit code is 0 if all tests pass."""
    from mutmut.mutation.trampoline import set_mutant_under_test

    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    _forget()
    set_mutant_under_test(name)
    for item in cases:
        os.write(writer, b".")
        try:
            _call(item)
        # Any exception means that the test has detected the mutant.
        except BaseException:
            os._exit(1)
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1 if FULL else 20)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--module", action="append", default=[], dest="modules")
    parser.add_argument("--judge", action="store_true", help="names of mutants come as lines")
    parser.add_argument("--minutes", type=float, default=240, help="unfinished modules are left")
    arguments = parser.parse_args()
    minutes = arguments.minutes
    if arguments.judge:
        names = [line.strip() for line in islice(sys.stdin, None) if line.strip()]
        files = ["tests/policies/kube", *(f"tests/policies/rules/{name}.py" for name in TESTS)]
        code = pytest.main(
            ["-q", "-p", "no:cacheprovider", *files], plugins=[Judge(names, minutes)]
        )
        sys.exit(0 if code in (0, 5) else 1)
    known = results.load("mutation") or {} if arguments.modules else {}
    known = known.get("modules", {})
    known |= run(arguments.every, arguments.processes, minutes, arguments.modules)
    page = document(dict(sorted(known.items())))
    results.store("mutation", page)
    for what in ("unexplained", "stale"):
        sys.stdout.write("".join(f"{what}: {name}\n" for name in page[what]))
    for name, figures in page["modules"].items():
        dead = figures["mutants"] - len(figures["survived"])
        sys.stdout.write(f"{name}: {dead} of {figures['mutants']}\n")
    sys.stdout.write(f"{page['killed']} of {page['mutants']} mutants killed\n")
    few = page["mutants"] - page["killed"] < MOST * page["mutants"]
    sys.exit(0 if few and not page["unexplained"] and not page["stale"] else 1)


if __name__ == "__main__":
    main()
