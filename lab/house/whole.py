"""Find functions whose parameters are annotated with the whole configuration."""

from __future__ import annotations

import ast

from lab.house.tree import Definition, Tree, decorated, parameters

WHOLES = frozenset({"Cluster", "Desired"})
"""Names of the classes that hold the whole configuration."""


def takers(tree: Tree, package: str = "gpu_cluster") -> list[Definition]:
    """Return functions and data classes with a parameter or field of a class in `WHOLES`.

    The class must be defined in a module below `package`.
    """
    found = [one for one in tree.functions() if _takes(tree, one, package)]
    for module in tree.modules.values():
        found += [one for one in module.defined.values() if _holds(tree, one, package)]
    return sorted(found, key=lambda one: (one.module.path, one.node.lineno))


def _takes(tree: Tree, one: Definition, package: str) -> bool:
    return any(_is_whole(tree, one, each.annotation, package) for each in parameters(one.function))


def _holds(tree: Tree, one: Definition, package: str) -> bool:
    if not isinstance(one.node, ast.ClassDef) or not decorated(one.node, "dataclass"):
        return False
    fields = [each.annotation for each in one.node.body if isinstance(each, ast.AnnAssign)]
    return any(_is_whole(tree, one, annotation, package) for annotation in fields)


def _is_whole(tree: Tree, one: Definition, annotation: ast.expr | None, package: str) -> bool:
    return any(
        found.name in WHOLES and found.module.name.startswith(f"{package}.")
        for found in tree.classes(one.module, annotation)
    )
