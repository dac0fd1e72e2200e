"""The functions that find the faults which stop a run before its first resource, from the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPONENTS = Path(__file__).parents[3] / "components" / "gpu_cluster"
GATE = ("cluster", "inspection")
"""Module and package whose faults stop a run before its first resource."""
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Module:
    """A module of `gpu_cluster`.

    Attributes:
        name: Name without `gpu_cluster.`.
        tree: Its source.
    """

    name: str
    tree: ast.Module

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    @property
    def imported(self) -> dict[str, str]:
        """Return the full name of each imported name, without `gpu_cluster.`."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}".removeprefix("gpu_cluster.")
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def used(self, node: ast.AST) -> Iterator[str]:
        """Yield the full name of each function that a part of the module may use."""
        imported = self.imported
        for part in ast.walk(node):
            if isinstance(part, ast.Name):
                yield imported.get(part.id, f"{self.name}.{part.id}")
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                yield f"{imported.get(part.value.id, part.value.id)}.{part.attr}"


def modules() -> list[Module]:
    """Return the modules of `gpu_cluster`."""
    found = []
    for path in sorted(COMPONENTS.rglob("*.py")):
        name = ".".join(path.relative_to(COMPONENTS).with_suffix("").parts)
        found.append(Module(name, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def judges() -> set[str]:
    """Return the functions that the gate uses and that find or make faults.

    A function that only another such function of its module uses is a part of that function.
    """
    every = modules()
    returns = {
        f"{module.name}.{function.name}"
        for module in every
        for function in module.functions
        if function.returns is not None and "Fault" in ast.unparse(function.returns)
    }
    gate = [module for module in every if module.name.partition(".")[0] in GATE]
    makes = {
        f"{module.name}.{function.name}"
        for module in gate
        for function in module.functions
        if any(isinstance(node, ast.Name) and node.id == "Fault" for node in _body(function))
    }
    found: set[str] = set()
    for module in gate:
        helpers = {
            name
            for function in module.functions
            if f"{module.name}.{function.name}" in returns
            for name in module.used(ast.Module(body=function.body, type_ignores=[]))
        }
        used = {name for name in module.used(module.tree) if name in returns}
        found |= {
            name
            for name in used | {m for m in makes if m.rpartition(".")[0] == module.name}
            if name not in helpers
        }
    return found


def _body(function: Function) -> Iterator[ast.AST]:
    return (node for part in function.body for node in ast.walk(part))
