"""The rules work without this project, installed as the package `gpu_rules`.

They work even if the names of the project's other packages belong to packages of other people.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_cluster.commands.files import project_files
from gpu_rules.command import VERSION
from tests.policies.check.packages import copy, install
from tests.policies.check.running import ROOT
from tests.policies.check.samples import BAD, GOOD

RULEBOOK = ROOT / "policies" / "gpu_rules"
OURS = {"gpu_cluster", "gpu_cluster_lab", "gpu_rules", "lab", "maintenance"}
LOADERS = {"import_module", "__import__", "run_module", "run_path", "find_spec", "resolve_name"}
NAME = "gpu_rules"
DECOY = 'raise ImportError("a package of somebody else")\n'
PACK = f"""
import json
from {NAME}.pack import policies
from {NAME}.rules import RULES
print(json.dumps([sorted(RULES), [policy.name for policy in policies()]]))
"""


def outward(tree: ast.AST) -> Iterator[str]:
    """Yield each absolute import of this project's packages, also by importlib and runpy."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if _is_ours(item.name))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from [node.module] if node.module and _is_ours(node.module) else []
        elif isinstance(node, ast.Call) and _loader(node.func) in LOADERS:
            texts = (item.value for item in node.args if isinstance(item, ast.Constant))
            yield from (str(text) for text in texts if _is_ours(str(text)))


def _is_ours(name: str) -> bool:
    return name.replace("/", ".").partition(".")[0] in OURS


def _loader(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


@pytest.mark.parametrize(
    "text",
    [
        "import gpu_cluster",
        "def f():\n    from gpu_rules.rules import RULES",
        "import runpy\nrunpy.run_module('gpu_rules.check')",
        "from importlib import import_module\nimport_module('gpu_cluster.commands.up')",
        "runpy.run_path('gpu_cluster_lab/toolchain/resolve.py')",
    ],
)
def test_an_import_from_outside_is_found(text: str) -> None:
    assert len(list(outward(ast.parse(text)))) == 1


def test_the_rulebook_imports_nothing_of_ours_by_its_full_name() -> None:
    files = sorted(RULEBOOK.rglob("*.py"))
    assert len(files) > 100
    found = {str(file): list(outward(ast.parse(file.read_text()))) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_no_import_leaves_the_rulebook() -> None:
    """A relative import with too many dots would import from outside `gpu_rules`."""
    for file in RULEBOOK.rglob("*.py"):
        depth = len(file.relative_to(RULEBOOK).parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert node.level <= depth, f"{file}:{node.lineno}"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the installed package `gpu_rules`.

    Packages with the names of this project's packages are also installed there. They must not be
    imported.
    """
    source, folder = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("shipped")
    copy(source, "policies/")
    install(source / "policies", folder)
    for name in OURS - {NAME}:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(DECOY)
    (folder / "bad.yaml").write_text(BAD)
    (folder / "good.yaml").write_text(GOOD)
    return folder


def test_the_package_has_every_file_of_the_rulebook(shipped: Path) -> None:
    start = "policies/gpu_rules/"
    code = {Path(name.removeprefix(start)) for name in project_files() if name.startswith(start)}
    there = {file.relative_to(shipped / NAME) for file in (shipped / NAME).rglob("*.*")}
    assert there == code


def test_the_command_says_the_version_of_its_package() -> None:
    project = tomllib.loads((RULEBOOK.parent / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_both_packages_have_the_version_and_the_needs_of_the_checker() -> None:
    project, alone = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        for folder in (ROOT, RULEBOOK.parent)
    )
    same = ("version", "license", "requires-python")
    assert {key: alone[key] for key in same} == {key: project[key] for key in same}
    assert f"gpu-rules=={alone['version']}" in project["dependencies"]
    assert set(alone["dependencies"]) <= set(project["dependencies"])


def _python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        # Python searches the working directory for imports before the installed packages.
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.promise("The rules install alone as the package `gpu_rules`, beside any packages.")
def test_the_checker_finds_a_violation_without_the_project(shipped: Path) -> None:
    done = _python(shipped, "-m", f"{NAME}.check", "bad.yaml", "--format", "json")
    assert done.returncode == 1, done.stderr
    violations = json.loads(done.stdout)["violations"]
    assert "GPU001" in {violation["rule"] for violation in violations}
    assert _python(shipped, "-m", f"{NAME}.check", "good.yaml").returncode == 0


def test_the_pack_has_every_rule_without_the_project(shipped: Path) -> None:
    done = _python(shipped, "-c", PACK)
    assert done.returncode == 0, done.stderr
    rules, policies = json.loads(done.stdout)
    modules = RULEBOOK.glob("rules/*/gpu[0-9][0-9][0-9]_*.py")
    assert rules == sorted(file.name[:6].upper() for file in modules)
    assert "gpu-rules-mandatory" in policies


def test_a_stack_that_nobody_can_read_is_told(shipped: Path) -> None:
    done = _python(shipped, "-m", f"{NAME}.check", "good.yaml", "--stack", "prod")
    assert done.returncode == 2
    assert "--stack prod" in done.stderr
    assert "give pools and platform in .gpu-rules.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_that_the_refusal_names_reads_the_stack(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(GOOD)
    given = (str(tmp_path / "good.yaml"), "--stack", "dev", "--format", "json")
    refused = _python(ROOT, "-m", "gpu_rules.check", *given)
    assert refused.returncode == 2
    named = re.search(r"`python (.+?)`", refused.stderr)
    assert named, refused.stderr
    done = _python(ROOT, *shlex.split(named[1]), *given)
    # Only the stack file declares the taint that GPU004 reads.
    assert "GPU004" in {each["rule"] for each in json.loads(done.stdout)["violations"]}
