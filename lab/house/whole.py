"""Find functions whose parameters are annotated with the whole configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lab.house.tree import Module, Tree

WHOLES = frozenset({"Cluster", "Desired"})
"""Names of the classes that hold the whole configuration."""


def takers(tree: Tree, package: str = "gpu_cluster") -> list[str]:
    """Return functions and data classes with a parameter or field of a class in `WHOLES`.

    The class must come from a module below `package`.
    """
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for module in tree.modules.values()
        for node in ast.walk(module.syntax)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if any(_is_whole(module, annotation, package) for annotation in _walk_annotations(node))
    ]


def _walk_annotations(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
) -> Iterator[ast.expr]:
    if isinstance(node, ast.ClassDef):
        if any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list):
            yield from (field.annotation for field in node.body if isinstance(field, ast.AnnAssign))
        return
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg) and argument.annotation:
            yield argument.annotation


def _is_whole(module: Module, annotation: ast.expr, package: str) -> bool:
    """Check that an annotation names a class of `WHOLES`, also in a union, a string or a list."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Callable":
        return False
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            name = module.imported.get(node.id, f"{module.name}.{node.id}")
        elif isinstance(node, ast.Attribute):
            holder = ast.unparse(node.value)
            name = f"{module.imported.get(holder, holder)}.{node.attr}"
        else:
            continue
        if name.startswith(f"{package}.") and name.rpartition(".")[2] in WHOLES:
            return True
    return False
