"""Kubernetes' own rules stand in `gpu_rules.kube` only: no other module writes them again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_rules.kube import gpu_resources
from gpu_rules.kube.taints import TaintEffect

ROOT = Path(__file__).parents[2]
PRODUCT = ("components", "policies")
GROUND = "policies/gpu_rules/kube/"

AMOUNTS = {"allocatable", "capacity", "limits", "requests", "overhead", "resources"}
"""Keys of API objects below which amounts stand."""
READERS = {"int", "float", "Decimal", "isdigit", "isdecimal", "fullmatch", "match"}
"""Functions that read a number from a text."""
GRAMMAR = ("[a-z0-9]([", "{0,61}[a-z")
"""Parts of patterns that only Kubernetes' grammar of names has."""
SUFFIXES = {"Ki", "Mi", "Gi", "Ti"}
NAMES = {
    value
    for name, value in vars(gpu_resources).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("_")
}


def texts(node: ast.AST) -> set[str]:
    """Return the constant texts in a part of a module."""
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def called(node: ast.AST) -> set[str]:
    """Return the names of the functions and methods that a part of a module calls."""
    functions = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    return {
        function.id if isinstance(function, ast.Name) else function.attr
        for function in functions
        if isinstance(function, ast.Name | ast.Attribute)
    }


def is_of_a_taint(node: ast.expr) -> bool:
    """Return whether an expression is the effect of a taint, or a constant for one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return node.func.attr == "get" and texts(node.args[0]) == {"effect"}
    return (
        (isinstance(node, ast.Attribute) and node.attr == "effect")
        or (isinstance(node, ast.Subscript) and texts(node.slice) == {"effect"})
        or (isinstance(node, ast.Attribute) and ast.unparse(node.value) == "TaintEffect")
        or (isinstance(node, ast.Constant) and node.value in set(TaintEffect))
    )


def rewritten(text: str) -> Iterator[str]:
    """Yield which of Kubernetes' rules a module writes again."""
    module = ast.parse(text)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            read = called(node) & READERS
            if texts(node) & AMOUNTS and read:
                yield f"{node.name} reads an amount by {', '.join(sorted(read))}"
        elif isinstance(node, ast.Compare):
            if any(map(is_of_a_taint, (node.left, *node.comparators))):
                yield f"{ast.unparse(node)} compares a taint"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "compile" and ast.unparse(node.func.value) == "re":
                pattern = "".join(sorted(texts(node.args[0])))
                if any(part in pattern for part in GRAMMAR):
                    yield f"{pattern} is the grammar of a name"
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node in module.body:
            value = node.value
            if isinstance(value, ast.Constant) and value.value in NAMES:
                yield f"{value.value} is the name of a GPU resource"
            elif isinstance(value, ast.Dict) and texts(value) & SUFFIXES:
                yield "a table of suffixes of quantities"


def test_no_other_module_has_a_rule_of_kubernetes() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {fault}"
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(GROUND)
        for fault in rewritten(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("def held(node): return int(node['status']['allocatable']['a'])", 1),
        ("def held(pod): return re.fullmatch('[0-9]+', pod['limits'])", 1),
        ("def held(pod): return read_count(pod['limits'])", 0),
        ("def count(text): return int(text)", 0),
        ("def bad(taint): return taint['effect'] == kind", 1),
        ("def bad(taint): return taint.get('effect') in HARD", 1),
        ("def bad(taint): return taint.effect is not TaintEffect.NO_EXECUTE", 1),
        ("def bad(effect): return effect in ('a',) or effect == 'NoSchedule'", 1),
        ("def good(taint): return taint.is_hard", 0),
        ("NAME = re.compile(r'[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?')", 1),
        ("NAME = re.compile(r'[a-z]+')", 0),
        ("GPU = 'nvidia.com/gpu'", 1),
        ("LABEL = 'nvidia.com/gpu.present'", 0),
        ("UNITS = {'Ki': 1024}", 1),
    ],
)
def test_a_rule_that_is_written_again_is_found(text: str, faults: int) -> None:
    assert len(list(rewritten(text))) == faults
