"""Files and modules that documents, Makefile, comments and code mention must exist."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

import pytest

from gpu_cluster.commands.files import project_files
from lab.house.tree import Tree

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("components/", "embedded/gpu_cluster_lab/", "lab/", "maintenance/", "policies/")
PACKAGES = ("gpu_cluster", "gpu_cluster_lab", "gpu_rules", "lab", "maintenance")
READERS = ("README.md", "SECURITY.md", "Makefile", "__main__.py", "pyproject.toml", ".github/")
WRITTEN_BY_OTHERS = ("docs/promises.md", "docs/rules.md")
"""Generated pages, which are not checked because their sources are."""
PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join((*SOURCES, 'tests/'))})[\w./{{}},*-]*[\w}}*]/?")
DOTTED = re.compile(rf"(?<![\w./'-])(?:{'|'.join(PACKAGES)})(?:\.\w+)+\b(?![/-])")
QUOTED = re.compile(r"(?<!`)`([\w.]+)`(?!`)")
STARTED = re.compile(rf"(?:-m[\"',\s]+|\$\((?:RUN|MODULE)\) )((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
"""Module that a command line starts as a program."""
EXAMPLES = {
    # Path in a comment that is an example of a file in a user's own repository.
    "components/gpu_cluster/base/image.py:tests/gpu-pod.yaml",
    "Makefile:lab/hardware/STACK.yaml",
}
BEGINNINGS = ("embedded/gpu_cluster_lab/toolchain/plugins/pulumi",)
"""Beginnings of file names that are no complete path."""
MADE = ("tests/results", "lab/benchmarks/results", "lab/benchmarks/results/B9.json")
"""Folders and files that runs create inside the project."""
ENDINGS = ("md", "pth", "py", "yaml", "sh", "toml")
"""File name endings: after a package's name, they mean a file and not a module."""


def with_folders(files: Iterable[str]) -> set[str]:
    return {*files, *(str(parent) for name in files for parent in Path(name).parents)}


def broken_paths(text: str, there: Set[str]) -> Iterator[str]:
    """Yield the paths in a text that are neither a file nor a folder of the project."""
    for match in PATH.finditer(text):
        for path in _each(match[0].rstrip("/")):
            if path not in there and not ("*" in path and fnmatch.filter(there, path)):
                yield path


def _each(path: str) -> Iterator[str]:
    """Yield all paths that a path with braces such as `a/{b,c}.py` means."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if braces is None:
        yield path
        return
    for part in braces[1].split(","):
        yield from _each(path[: braces.start()] + part + path[braces.end() :])


def broken_names(text: str, tree: Tree) -> Iterator[str]:
    """Yield the dotted names in a text that are neither a module nor a name defined in one."""
    packages = {name.rpartition(".")[0] for name in tree.modules}
    for match in DOTTED.finditer(text):
        name = match[0]
        if name.rpartition(".")[2] not in ENDINGS and not _exists(name, tree, packages):
            yield name


def _exists(name: str, tree: Tree, packages: set[str]) -> bool:
    if name in packages or name in tree.modules:
        return True
    holder, _, rest = name.rpartition(".")
    if holder not in tree.modules:
        return "." in holder and _exists(holder, tree, packages)
    return rest in tree.modules[holder].names


def texts() -> dict[str, str]:
    """Return the checked texts by file name; code blocks in docs/contributing.md are left out."""
    found = {}
    for name in project_files():
        if not name.startswith((*READERS, "docs/", *SOURCES)):
            continue
        path = ROOT / name
        if path.suffix in (".md", ".py", ".sh", ".toml", ".yaml", ".yml", "") and path.is_file():
            found[name] = path.read_text(encoding="utf-8", errors="replace")
    page = "docs/contributing.md"
    found[page] = re.sub(r"^```\w+ ?\S*\n.*?^```$", "", found[page], flags=re.M | re.S)
    return {name: text for name, text in found.items() if not name.startswith(WRITTEN_BY_OTHERS)}


def test_every_path_that_is_named_exists() -> None:
    there = with_folders(project_files())
    broken = {
        f"{name}:{path}" for name, text in texts().items() for path in broken_paths(text, there)
    }
    assert {line for line in broken - EXAMPLES if not line.endswith((*MADE, *BEGINNINGS))} == set()


def test_every_module_that_is_named_exists(ours: Tree) -> None:
    # Code has dotted names of many kinds; a name that its text puts in backquotes is a module's.
    pages = {
        name: " ".join(QUOTED.findall(text) + STARTED.findall(text))
        if name.endswith((".py", ".sh"))
        else text
        for name, text in texts().items()
    }
    broken = {
        f"{name}:{found}" for name, text in pages.items() for found in broken_names(text, ours)
    }
    assert broken == set()


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("`components/a.py` and `components/b/`", []),
        ("components/{a.py,c.py}.", ["components/c.py"]),
        ("components/*.py, components/b/*.py", ["components/b/*.py"]),
        ("see components/b/gone.py.", ["components/b/gone.py"]),
        ("https://example.com/components/gone.py", []),
    ],
)
def test_a_path_that_is_gone_is_found(text: str, broken: list[str]) -> None:
    assert (
        list(broken_paths(text, with_folders(["components/a.py", "components/b/one.sh"]))) == broken
    )


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("`gpu_cluster.cluster.GpuCluster`, gpu_cluster.cluster", []),
        ("python -m gpu_cluster.gone", ["gpu_cluster.gone"]),
        ("`gpu_cluster.cluster.Gone`", ["gpu_cluster.cluster.Gone"]),
        ("docs/reference/commands.md, commands.md", []),
    ],
)
def test_a_name_that_is_gone_is_found(ours: Tree, text: str, broken: list[str]) -> None:
    assert list(broken_names(text, ours)) == broken
