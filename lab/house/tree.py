"""Source tree: its modules, their syntax, and the names that each defines or imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCES = ("components", "embedded", "policies", "")
"""Folders that hold packages, relative to the root folder."""


@dataclass(eq=False)
class Module:
    """Python module with its syntax tree; `path` is relative to the tree's root."""

    name: str
    path: str
    syntax: ast.Module
    package: bool = False

    @cached_property
    def imported(self) -> dict[str, str]:
        """Return the absolute name of each object that the module imports, by its name there."""
        absolute_names: dict[str, str] = {}
        for node in ast.walk(self.syntax):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    absolute_names[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom):
                base = self.absolute(node)
                for alias in node.names:
                    absolute_names[alias.asname or alias.name] = f"{base}.{alias.name}"
        return absolute_names

    @cached_property
    def names(self) -> set[str]:
        """Return the names that the module's top level defines, assigns or imports."""
        statements = _walk_statements(self.syntax.body)
        return {name for node in statements for name in _defined_names(node)} | set(self.imported)

    def absolute(self, node: ast.ImportFrom) -> str:
        """Return the absolute name of the module in a `from … import` statement."""
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        base = parts[: len(parts) - node.level + self.package]
        return ".".join([*base, *([node.module] if node.module else [])])


class Tree:
    """All Python modules of some packages in one root folder."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        """Read every Python file of the packages, and `__main__.py` of the root folder."""
        files = [
            (root / source, path)
            for name in packages
            for source in SOURCES
            for path in sorted((root / source / name).rglob("*.py"))
        ]
        files += [(root, path) for path in [root / "__main__.py"] if path.is_file()]
        self.root = root
        modules = (_read_module(root, source, path) for source, path in files)
        self.modules = {module.name: module for module in modules}


def _read_module(root: Path, source: Path, path: Path) -> Module:
    parts = list(path.relative_to(source).with_suffix("").parts)
    package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if package else parts)
    return Module(name, path.relative_to(root).as_posix(), ast.parse(path.read_bytes()), package)


def _walk_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, also those nested in `if` and `try` statements."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _walk_statements(node.body)
            yield from _walk_statements(node.orelse)


def _defined_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
