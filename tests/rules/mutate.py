"""A mutation run over `policies/rules`: does some test fail when a rule is changed?

`python -m tests.rules.mutate [--every N]`. mutmut makes the mutants, all of them in one copy of the
sources with a switch; here each gets a forked process that already holds the tests. The tests are
those by tables: each case builds a manifest and asks the rules, without engine and API server.
Functions with a decorator (those that remember results) are not mutated by mutmut.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.rules import results

ROOT = Path(__file__).parents[2]
TESTS = (
    *("test_capacity", "test_isolation", "test_stack_rules", "test_inputs", "test_workloads"),
    *("test_rules", "test_quantity"),
)
FIRST = {
    "capacity": "test_capacity", "replicas": "test_capacity", "pod_request": "test_capacity",
    "isolation": "test_isolation", "tolerations": "test_isolation", "pools": "test_isolation",
    "sharing": "test_isolation", "embedded": "test_isolation", "host_paths": "test_isolation",
    "nodes": "test_stack_rules", "namespace_quota": "test_stack_rules",
    "device_plugins": "test_stack_rules", "helm": "test_inputs", "helm_values": "test_inputs",
    "remote_commands": "test_inputs", "secret": "test_inputs", "exemptions": "test_inputs",
    "workloads": "test_workloads", "naming": "test_workloads", "resource_names": "test_workloads",
    "quantity": "test_quantity",
}  # fmt: skip
"""The tests to begin with, by the module that was changed: most mutants end there."""
LIMIT = 20
"""Seconds for all tests on one mutant; a mutant that never ends is found too."""
MOST = 0.05
"""The share of mutants that may survive."""
SETTINGS = """
[tool.mutmut]
source_paths = ["policies"]
only_mutate = ["policies/rules/*"]
use_git_change_detection = false
[tool.pytest.ini_options]
pythonpath = ["."]
"""
GENERATE = "from mutmut.__main__ import create_mutants; create_mutants(2)"


def prepare(folder: Path) -> list[str]:
    """Copy sources and tests, make the mutants; their names."""
    shutil.copytree(ROOT / "policies", folder / "policies", ignore=_caches)
    (folder / "pyproject.toml").write_text(SETTINGS)
    _run(folder, "-c", GENERATE)
    mutants = folder / "mutants"
    shutil.copytree(ROOT / "policies" / "rules" / "examples", mutants / "policies/rules/examples")
    shutil.copytree(ROOT / "docs" / "rules", mutants / "docs" / "rules")
    (mutants / "tests" / "rules").mkdir(parents=True)
    (mutants / "pyproject.toml").write_text(SETTINGS)
    (mutants / "tests" / "__init__.py").touch()
    own = [*(f"{name}.py" for name in TESTS), "cases.py", "mutate.py", "results.py", "__init__.py"]
    for name in [*own, "quantities.json"]:
        shutil.copy(ROOT / "tests" / "rules" / name, mutants / "tests" / "rules")
    found: list[str] = []
    for file in sorted(mutants.glob("policies/rules/*.meta")):
        found += json.loads(file.read_text())["exit_code_by_key"]
    return found


def _caches(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__"]


def _run(folder: Path, *arguments: str, lines: str = "") -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, input=lines, text=True,
        capture_output=True, check=False, timeout=4 * 3600,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def run(every: int, processes: int) -> dict[str, Any]:
    """Judge each `every`-th mutant."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as temporary:
        folder = Path(temporary)
        names = prepare(folder)[::every]
        parts = [names[start::processes] for start in range(processes)]

        def judged(part: list[str]) -> str:
            return _run(
                folder / "mutants", "-m", "tests.rules.mutate", "--judge", lines="\n".join(part)
            )

        with ThreadPoolExecutor(processes) as pool:
            outputs = list(pool.map(judged, parts))
    verdicts = dict(
        line.split(" ")[1:] for output in outputs for line in output.splitlines()
        if line.startswith("verdict ")
    )  # fmt: skip
    survived = sorted(name for name, verdict in verdicts.items() if verdict == "survived")
    return {
        "mutants": len(verdicts),
        "killed": len(verdicts) - len(survived),
        "every": every,
        "survived": survived,
    }


class Judge:
    """A pytest plugin that runs the collected tests once for each mutant, in a fork each."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        cases = [item for item in session.items if _alone(item)]
        for item in cases:  # unchanged they pass, and what they import is there
            _call(item)
        for name in self.names:
            _begin_with(FIRST.get(name.split(".")[2], ""), cases)
            sys.stdout.write(f"verdict {name} {_verdict(name, cases)}\n")
            sys.stdout.flush()
        session.items.clear()


def _alone(item: pytest.Item) -> bool:
    """Whether a test needs nothing but its parameters."""
    names = set(item.fixturenames) - {"request"}  # type: ignore[attr-defined]
    return names <= set(_parameters(item)) and "refused_at_once" not in item.name


def _parameters(item: Any) -> dict[str, Any]:
    return dict(item.callspec.params) if hasattr(item, "callspec") else {}


def _call(item: Any) -> None:
    item.obj(**_parameters(item))


def _begin_with(first: str, cases: list[pytest.Item]) -> None:
    cases.sort(key=lambda item: (item.path.stem != first, "reference_page" not in item.name))


def _verdict(name: str, cases: list[pytest.Item]) -> str:
    child = os.fork()
    if child == 0:
        os._exit(_fails(name, cases))
    _, status = os.waitpid(child, 0)
    return "survived" if status == 0 else "killed"


def _fails(name: str, cases: list[pytest.Item]) -> int:
    from mutmut.mutation.trampoline import set_mutant_under_test

    signal.alarm(LIMIT)
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    for module in [each for key, each in sys.modules.items() if key.startswith("policies")]:
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    set_mutant_under_test(name)
    for item in cases:
        try:
            _call(item)
        except BaseException:  # whatever it raises, the change was seen
            return 1
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--judge", action="store_true", help="names of mutants come as lines")
    arguments = parser.parse_args()
    if arguments.judge:
        names = [line.strip() for line in islice(sys.stdin, None) if line.strip()]
        files = [f"tests/rules/{name}.py" for name in TESTS]
        code = pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[Judge(names)])
        sys.exit(0 if code in (0, 5) else 1)
    found = run(arguments.every, arguments.processes)
    results.store("mutation", found)
    sys.stdout.write("".join(f"survived: {name}\n" for name in found["survived"]))
    sys.stdout.write(f"{found['killed']} of {found['mutants']} mutants killed\n")
    sys.exit(1 if len(found["survived"]) >= MOST * found["mutants"] else 0)


if __name__ == "__main__":
    main()
