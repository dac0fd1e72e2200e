"""Tests of the layout of the tests.

The folders of tests mirror the packages, each package has a test, and no module imports a test.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.house.tree import Tree
from tests.proofs import PROOFS, arguments

ROOT = Path(__file__).resolve().parents[2]
MIRRORED = {"gpu_cluster.commands": "commands", "gpu_cluster": "components"}
"""Folders of tests, by the package whose modules they test; the first that fits counts."""


def imported(text: str) -> Iterator[str]:
    """Yield the dotted names that a module imports, also inside functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of_tests(text: str) -> set[str]:
    """Return the test modules that a module imports."""
    found = (re.match(r"tests(?:\.\w+)*?\.test_\w+", name) for name in imported(text))
    return {match[0] for match in found if match}


def untested(packages: set[str], tests: dict[str, str]) -> set[str]:
    """Return the packages that no test module in the corresponding folder of `tests` imports.

    Args:
        packages: Dotted names of packages.
        tests: Text of each test module by its path below the folder of tests.
    """
    return {
        package
        for package in packages
        if not any(
            Path(path).is_relative_to(mirror(package))
            and any(f"{name}.".startswith(f"{package}.") for name in imported(text))
            for path, text in tests.items()
        )
    }


def mirror(package: str) -> Path:
    """Return the folder with the tests of a package, relative to `tests`."""
    top = next(name for name in MIRRORED if f"{package}.".startswith(f"{name}."))
    return Path(MIRRORED[top], *package.removeprefix(top).split("."))


def texts() -> dict[str, str]:
    """Return the source text of each module below `tests`, by its path in that folder."""
    folder = ROOT / "tests"
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def test_no_module_imports_a_test() -> None:
    found = {path: names for path, text in texts().items() if (names := imports_of_tests(text))}
    assert found == {}


def test_each_package_has_tests_in_its_mirror(ours: Tree) -> None:
    # A package with nothing but a program's entry has no function to test; it is run by proofs.
    packages = {
        name.rpartition(".")[0]
        for name in ours.modules
        if name.startswith("gpu_cluster.") and not name.endswith(".__main__")
    }
    tests = {path: text for path, text in texts().items() if Path(path).name.startswith("test_")}
    assert untested(packages, tests) == set()


def test_each_proof_has_its_files_and_its_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folders = {
        path.name
        for path in (ROOT / "tests" / "proofs").iterdir()
        if (path / "__init__.py").exists()
    }
    # A folder may hold parts of several proofs.
    listed = {
        Path(path).parts[2] for paths in PROOFS.values() for path in paths if "/proofs/" in path
    }
    assert folders <= PROOFS.keys() | listed
    for name, paths in PROOFS.items():
        assert f"\ntest-{name}: " in makefile
        assert f"$(call proof,{name}," in makefile
        assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", PROOFS)
def test_the_files_of_a_proof_run_in_their_order(name: str) -> None:
    given = [ROOT / path for path in arguments(name)]
    # pytest would run a file together with a folder above it.
    assert not [path for path in given if set(path.parents) & set(given)]
    assert len(given) == len(set(given))
    first = [ROOT / path for path in PROOFS[name]]
    assert {file for path in first for file in _files(path)} == {
        file for path in given for file in _files(path)
    }
    listed = [path for path in first if path in given]
    assert [path for path in given if path in listed] == listed


def _files(path: Path) -> list[Path]:
    return list(path.rglob("test_*.py")) if path.is_dir() else [path]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from tests.a.helper import start", set()),
        ("from tests.a.test_b import says", {"tests.a.test_b"}),
        ("from tests.a import test_b", {"tests.a.test_b"}),
        ("def inner():\n    import tests.a.test_b", {"tests.a.test_b"}),
    ],
)
def test_an_imported_test_is_found(text: str, found: set[str]) -> None:
    assert imports_of_tests(text) == found


def test_a_package_whose_tests_stand_elsewhere_is_found() -> None:
    one, two = "gpu_cluster.a", "gpu_cluster.b"
    inside = {"components/a/test_b.py": "from gpu_cluster.a import b"}
    assert untested({one}, inside) == set()
    assert untested({one, two}, inside) == {two}
    assert untested({one}, {"components/a/test_b.py": "import os"}) == {one}
    assert untested({one}, {"other/test_b.py": "import gpu_cluster.a"}) == {one}
