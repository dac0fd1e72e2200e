"""Fixtures with source trees: small trees for tests, and the tree of this project."""

from __future__ import annotations

import gc
import tomllib
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from lab.house.tree import Tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def grow(tmp_path: Path) -> Callable[..., Tree]:
    """Return a function that writes files of a package `gpu_cluster` and reads them as a tree."""

    def written(**files: str) -> Tree:
        for name, text in files.items():
            path = tmp_path / "components" / "gpu_cluster" / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return Tree(tmp_path, ["gpu_cluster"])

    return written


@pytest.fixture(scope="session")
def ours() -> Tree:
    """Return the source tree of this project: all packages and `__main__.py`."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    # Until Python 3.11.8 `ast.parse` fails if the garbage collector lets another thread parse
    # meanwhile (python/cpython#106905).
    gc.disable()
    try:
        return Tree(ROOT, settings["importlinter"]["root_packages"])
    finally:
        gc.enable()
