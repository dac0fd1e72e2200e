"""Find imports in a source tree, also those at run time, imports of higher layers, and cycles."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.house.tree import Module, Tree

RUN_TIME = frozenset({"import_module", "__import__", "run_module", "find_spec", "resolve_name"})
"""Functions that import the module whose name is their argument."""

BY_PATH = frozenset({"run_path", "spec_from_file_location"})
"""Functions that run the file whose path is their argument."""

DISCOVERIES = frozenset({"walk_packages", "iter_modules"})
"""Functions that list modules to import."""


@dataclass(frozen=True, order=True)
class Edge:
    """Import of one module by another module."""

    source: str
    target: str
    line: int
    run_time: bool = False

    def __str__(self) -> str:
        """Return a text with the importing module, its line, and the imported module."""
        return f"{self.source}:{self.line} -> {self.target}{' (run time)' * self.run_time}"


@dataclass(frozen=True)
class Layers:
    """Layers contract of import-linter: groups of modules, with the highest layer first.

    `independent` has the numbers of the layers whose modules must not import each other.
    """

    groups: tuple[tuple[str, ...], ...]
    independent: frozenset[int]

    @classmethod
    def read(cls, path: Path) -> Layers | None:
        """Read the layers contract from a pyproject.toml; return None if the file has none."""
        contracts = tomllib.loads(path.read_text())["tool"]["importlinter"].get("contracts", [])
        for contract in contracts:
            if contract["type"] == "layers":
                return cls.of(contract["layers"])
        return None

    @classmethod
    def of(cls, lines: Iterable[str]) -> Layers:
        """Parse the lines of a layers contract.

        Each line is one layer. In `a | b` the modules must not import each other; in `a : b` they
        may.
        """
        written = list(lines)
        groups = [re.split(r"\s*[|:]\s*", line.strip()) for line in written]
        return cls(
            tuple(tuple(name.strip("() ") for name in group) for group in groups),
            frozenset(i for i, line in enumerate(written) if "|" in line),
        )

    def place(self, module: str) -> tuple[int, str] | None:
        """Return a module's layer: its number, and the name in the layer that covers the module."""
        candidates = [
            (len(name), i, name)
            for i, group in enumerate(self.groups)
            for name in group
            if f"{module}.".startswith(f"{name}.")
        ]
        return max(candidates)[1:] if candidates else None

    def upward(self, edges: Iterable[Edge]) -> list[Edge]:
        """Return the imports that violate the contract.

        These are imports of a higher layer, and imports between independent modules of one layer.
        """
        return [edge for edge in edges if self._refuses(edge)]

    def _refuses(self, edge: Edge) -> bool:
        source, target = self.place(edge.source), self.place(edge.target)
        if source is None or target is None:
            return False
        if source[0] == target[0]:
            return source[1] != target[1] and source[0] in self.independent
        return target[0] < source[0]

    def outside(self, modules: Iterable[str], packages: Iterable[str]) -> list[str]:
        """Return the modules of some packages that no layer covers."""
        chosen = tuple(f"{package}." for package in packages)
        return [
            name
            for name in modules
            if f"{name}.".startswith(chosen) and "." in name and self.place(name) is None
        ]


def edges(tree: Tree) -> list[Edge]:
    """Return all imports in a tree; repeated imports of one module by another count once."""
    edges_by_ends: dict[tuple[str, str, bool], Edge] = {}
    for module in tree.modules.values():
        for edge in [*_written_imports(tree, module), *run_time(tree, module)]:
            if edge.source != edge.target:
                edges_by_ends.setdefault((edge.source, edge.target, edge.run_time), edge)
    return sorted(edges_by_ends.values())


def _written_imports(tree: Tree, module: Module) -> Iterator[Edge]:
    for node in ast.walk(module.syntax):
        if isinstance(node, ast.ImportFrom):
            base = module.absolute(node)
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                target = whole if whole in tree.modules else base
                if target in tree.modules:
                    yield Edge(module.name, target, node.lineno)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in tree.modules:
                    yield Edge(module.name, alias.name, node.lineno)


def run_time(tree: Tree, module: Module) -> Iterator[Edge]:
    """Yield the imports that a module makes at run time, as far as its source text shows them.

    A literal name with variable parts (an f-string) matches every module that fits it. If the name
    is computed elsewhere, every module name that the file contains as a string counts. If the file
    lists modules (`DISCOVERIES`), every module below its own package counts that matches one of its
    regular expressions.
    """
    for node, pattern in _import_calls(module):
        for target in _import_targets(tree, module, pattern):
            yield Edge(module.name, target, node.lineno, run_time=True)


def untold(tree: Tree) -> list[str]:
    """Return where modules are imported at run time under names that the source doesn't show."""
    places: list[str] = []
    for module in tree.modules.values():
        nodes = [
            call for call in _walk_calls(module.syntax) if _called_name(module, call) in BY_PATH
        ]
        nodes += [
            node
            for node, pattern in _import_calls(module)
            if pattern is None and not any(_import_targets(tree, module, pattern))
        ]
        places += [f"{module.name}:{node.lineno}" for node in nodes]
    return places


def _import_calls(module: Module) -> Iterator[tuple[ast.Call, str | None]]:
    """Yield each call that imports a module by name, with a regular expression for that name.

    The expression is None if the name isn't a literal. A name that begins with dots is relative to
    the module's own package.
    """
    for call in _walk_calls(module.syntax):
        if _called_name(module, call) not in RUN_TIME:
            continue
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if not arguments:
            continue
        name = arguments[0]
        if isinstance(name, ast.Constant) and str(name.value).startswith("."):
            other_arguments = str(name.value).lstrip(".")
            dots = len(str(name.value)) - len(other_arguments)
            yield call, re.escape(module.absolute(ast.ImportFrom(other_arguments, [], dots)))
        else:
            yield call, _name_pattern(name)


def _import_targets(tree: Tree, module: Module, pattern: str | None) -> Iterator[str]:
    if pattern is not None:
        yield from (name for name in tree.modules if re.fullmatch(pattern, name))
    elif any(_called_name(module, call) in DISCOVERIES for call in _walk_calls(module.syntax)):
        yield from _discovered_modules(tree, module)
    else:
        yield from _named_modules(tree, module.syntax)


def _walk_calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _discovered_modules(tree: Tree, module: Module) -> Iterator[str]:
    package = module.name if module.package else module.name.rpartition(".")[0]
    compiled = [
        str(node.args[0].value)
        for node in _walk_calls(module.syntax)
        if _called_name(module, node) == "compile" and node.args
        if isinstance(node.args[0], ast.Constant)
    ]
    for name in tree.modules:
        if name.startswith(f"{package}.") and (
            not compiled or any(re.fullmatch(pattern, name) for pattern in compiled)
        ):
            yield name


def _named_modules(tree: Tree, node: ast.AST) -> Iterator[str]:
    for inner_node in ast.walk(node):
        if (
            isinstance(inner_node, ast.Constant)
            and inner_node.value in tree.modules
            and "." in str(inner_node.value)
        ):
            yield str(inner_node.value)


def _called_name(module: Module, node: ast.Call) -> str:
    """Return the last part of the called function's name, before any renaming by an import."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    return module.imported.get(name, name).rpartition(".")[2]


def _name_pattern(node: ast.expr) -> str | None:
    """Return a regular expression for a string or f-string, or None for any other expression."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = [_name_pattern(part) or r"[^.]+" for part in node.values]
        return "".join(parts) if parts[0] != r"[^.]+" else None
    return None


def circles(edges: Iterable[Edge]) -> list[list[str]]:
    """Return groups of modules that import each other in a cycle, directly or indirectly."""
    after: dict[str, list[str]] = {}
    for edge in edges:
        after.setdefault(edge.source, []).append(edge.target)
        after.setdefault(edge.target, [])
    reached = {name: _reachable_modules(after, name) for name in after}
    groups = {
        tuple(sorted(other_name for other_name in reached[name] if name in reached[other_name]))
        for name in after
        if name in reached[name]
    }
    return sorted(list(group) for group in groups if len(group) > 1)


def _reachable_modules(after: dict[str, list[str]], name: str) -> set[str]:
    reached: set[str] = set()
    waiting = list(after[name])
    while waiting:
        if (module_name := waiting.pop()) not in reached:
            reached.add(module_name)
            waiting += after[module_name]
    return reached
