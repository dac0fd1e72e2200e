"""Each function, class and constant of the project is used somewhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("components", "policies", "commands", "toolchain")
LAB = "lab"
BY_OTHERS = (ROOT / "toolchain" / "plugins", ROOT / "tests")
"""Folders whose functions are called by gRPC, asyncssh or pytest, not by this project."""
CALLBACKS = {"begin_auth"}
"""Methods that asyncssh calls on a server object."""
REGISTERS = ("property", "functools", "contextlib", "dataclass", "static", "classmethod")
"""Decorators that don't register a function for other callers."""


def _unused(folders: tuple[str, ...]) -> list[str]:
    """Return the names that occur only once in these folders: in their definition."""
    words: Counter[str] = Counter()
    defined: dict[str, Path] = {}
    files = [ROOT / "__main__.py", ROOT / "Makefile", ROOT / "pyproject.toml"]
    for path in files + [path for top in folders for path in (ROOT / top).rglob("*.py")]:
        text = path.read_text()
        words.update(re.findall(r"\w+", text))
        if path.suffix == ".py" and not any(path.is_relative_to(folder) for folder in BY_OTHERS):
            defined |= {name: path for name in _defined(ast.parse(text))}
    assert len(defined) > 1000
    return [
        f"{path.relative_to(ROOT)}: {name}"
        for name, path in defined.items()
        if words[name] == 1 and not name.startswith("__") and name not in CALLBACKS
    ]


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield functions, classes, methods and constants, unless a decorator registers them."""
    for node in tree.body:
        yield from _names(node)
        if isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _names(member)


def _names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if all(text.startswith(REGISTERS) for text in decorators):
            yield node.name
    elif isinstance(node, ast.Assign):
        yield from (target.id for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def test_the_product_uses_each_name_that_it_defines() -> None:
    alone = _unused((*PRODUCT, LAB))
    assert [line for line in alone if not line.startswith("lab/")] == []


def test_the_lab_or_a_test_uses_each_name_of_the_lab() -> None:
    assert _unused((*PRODUCT, LAB, "tests")) == []
