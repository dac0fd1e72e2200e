"""Mutation test of `gpu_rules.rules` and `gpu_rules.kube`: does a test fail when code changes?

`python -m tests.proofs.rules.mutate [--every N] [--module NAME]`. By default every 20th mutant is
tested, from a random one on, and with FULL=1 each. mutmut makes all mutants in one copy of the
sources, with a switch between them. A run without mutants says which tests call each function. For
each mutant, a forked process that has already loaded the tests runs those that call the changed
function. These are the tests that import only the rules: each case builds a manifest and runs the
rules, without engine and API server. mutmut does not mutate functions with a decorator, such as
those that cache results.

Results are stored per module, so several partial runs (`--module`, `--minutes`) add up to a full
run. Mutants that survive because the change has no visible effect are listed with the reason in
`equivalent.json`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol
from mutmut import configuration

import gpu_rules.kube
import gpu_rules.rules
from tests.fixtures.programs import run_program
from tests.proofs.rules import results
from tests.proofs.rules.sample import FULL, SEED

ROOT = Path(__file__).parents[3]
KUBE = ROOT / "tests" / "policies" / "kube"
LIMIT = 20
"""Limit of CPU time for one test of a mutant, in seconds; it ends mutants that never stop."""
LIMIT_OF_ALL = 60
"""CPU time in seconds after which no further test is run: the mutant counts as one that survives.
"""
MOST = 0.05
"""Share of mutants that may survive, with those that are explained; the others are printed."""
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
_ELSEWHERE = re.compile(
    r"(from|import) (gpu_cluster|pulumi|lab|tests\.(?!policies\.(rules|kube|check)\b))"
)
"""Import of what the copy of the sources does not have."""
_LEFT_OUT = ("gpu_rules.rules.cel.", "gpu_rules.rules.example.")
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
    return [name for name in statuses if not _is_left_out(name)]


def _tests() -> dict[Path, list[str]]:
    """Return the files that the tests need, by the folder into which they are copied."""
    policies = Path("tests", "policies")
    return {
        policies / "kube": [path.name for path in KUBE.iterdir() if path.is_file()],
        policies / "rules": ["messages.json", *_files_about_rules(policies / "rules")],
        policies / "check": _files_about_rules(policies / "check"),
        Path("tests", "proofs", "rules"): ["mutate.py", "results.py", "sample.py", "__init__.py"],
        Path("tests", "fixtures"): ["programs.py", "__init__.py"],
    }


def _files_about_rules(folder: Path) -> list[str]:
    """Return the files in a folder of tests that import only the rules and such files."""
    return [
        path.name
        for path in sorted((ROOT / folder).glob("*.py"))
        if not any(map(_ELSEWHERE.match, path.read_text().splitlines()))
    ]


def _is_left_out(name: str) -> bool:
    """Return whether no test that runs here can detect a mutant.

    CEL is checked by an API server. Examples are the data of tests, which exist before a mutant is
    switched on.
    """
    return name.startswith(_LEFT_OUT) or "_cel__mutmut_" in name


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
        judge = ("--judge", f"--minutes={minutes}", f"--processes={processes}")
        output = _run(
            folder / "mutants", "-m", "tests.proofs.rules.mutate", *judge, lines="\n".join(names)
        )
    lines = [line for line in output.splitlines() if line.startswith("verdict ")]
    verdicts = dict(line.split(" ")[1:] for line in lines)
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

    def __init__(self, names: list[str], minutes: float, processes: int) -> None:
        self.names = names
        self.end = time.monotonic() + 60 * minutes
        self.processes = processes

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        cases = [item for item in session.items if "refused_at_once" not in item.name]
        _import_all()
        # mutmut reads its settings in the current folder, which a test may change.
        configuration.config()
        callers: dict[str, list[tuple[int, int]]] = {}
        # A first run without mutants says which tests call each function. Those that call few
        # functions come first, because they take little time and are about this function.
        for called in _in_processes(self.processes, lambda part: self._recorded(cases, part)):
            for number, functions in json.loads(called).items():
                for function in functions:
                    callers.setdefault(function, []).append((len(functions), int(number)))
        by_function = {
            function: [cases[number] for _, number in sorted(own)]
            for function, own in callers.items()
        }
        for verdicts in _in_processes(self.processes, lambda part: self._judged(by_function, part)):
            sys.stdout.write(verdicts)
        sys.stdout.flush()
        session.items.clear()

    def _recorded(self, cases: list[pytest.Item], part: int) -> str:
        """Return the functions that each test of a part calls, as JSON, by the test's number."""
        numbers = range(part, len(cases), self.processes)
        return json.dumps({number: sorted(_called(cases[number])) for number in numbers})

    def _judged(self, callers: dict[str, list[pytest.Item]], part: int) -> str:
        """Return a line with the verdict on each mutant of a part."""
        lines = []
        for name in self.names[part :: self.processes]:
            if time.monotonic() > self.end:
                break
            here = callers.get(name.rpartition("__mutmut_")[0], [])
            killer = _killer(name, here)
            # Run this test first for the next mutants of the same function: it will probably fail
            # for them as well.
            if killer is not None:
                here.insert(0, here.pop(killer))
            lines.append(f"verdict {name} {'survived' if killer is None else 'killed'}\n")
        return "".join(lines)


def _import_all() -> None:
    """Import all modules with mutants, so that no forked process has to."""
    for package in (gpu_rules.rules, gpu_rules.kube):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def _in_processes(count: int, work: Callable[[int], str]) -> list[str]:
    """Run a function for each number below `count` in a forked process of its own.

    Returns:
        What the function returned, by number.

    Raises:
        RuntimeError: It raised an exception.
    """
    readers = []
    for part in range(count):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            try:
                with open(writer, "w") as pipe:
                    pipe.write(f"{work(part)}\n.")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writer)
        readers.append(reader)
    texts = []
    for reader in readers:
        with open(reader) as pipe:
            texts.append(pipe.read())
    for _ in readers:
        os.wait()
    if not all(text.endswith("\n.") for text in texts):
        raise RuntimeError("a process that ran the tests has ended early")
    return [text[:-2] for text in texts]


def _call(item: Any) -> None:
    """Run a test; raise if it fails.

    pytest itself runs a test with fixtures. Other tests are called, which is ten times faster.
    """
    parameters = dict(item.callspec.params) if hasattr(item, "callspec") else {}
    if set(item.fixturenames) <= {"request", *parameters}:
        item.obj(**parameters)
        return
    for report in runtestprotocol(item, log=False, nextitem=None):
        if report.failed:
            raise AssertionError(report.longreprtext)


def _called(item: pytest.Item) -> set[str]:
    """Return the names of the functions that a test calls."""
    from mutmut.state import state

    state()._stats.clear()
    _forget()
    _switch_to("stats")
    _call(item)
    return set(state()._stats)


def _switch_to(name: str) -> None:
    """Use one mutant in this process.

    Each call of a function asks which one. mutmut looks into the environment for that, which takes
    longer than most of these functions.
    """
    from mutmut.mutation import trampoline

    vars(trampoline)["get_mutant_under_test"] = lambda: name


def _forget() -> None:
    """Empty the caches of all functions in the modules of the rules."""
    for clear in _caches_of_functions(len(sys.modules)):
        clear()


@cache
def _caches_of_functions(_: int) -> list[Callable[[], None]]:
    """Return what empties each cache; to look for them is slow, so it is done for new modules."""
    loaded = [module for key, module in sys.modules.items() if key.startswith("gpu_rules")]
    values = [value for module in loaded for value in vars(module).values()]
    return [value.cache_clear for value in values if hasattr(value, "cache_clear")]


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
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    _forget()
    _switch_to(name)
    begin = time.process_time()
    for item in cases:
        if time.process_time() - begin > LIMIT_OF_ALL:
            break
        os.write(writer, b".")
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
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
        code = pytest.main(
            ["-q", "-p", "no:cacheprovider", "tests/policies"],
            plugins=[Judge(names, minutes, arguments.processes)],
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
    sys.exit(0 if few and not page["stale"] else 1)


if __name__ == "__main__":
    main()
