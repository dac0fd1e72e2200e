"""Findings are data: no code reads the words that they are shown with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("components", "maintenance", "policies")
WORDS = frozenset({"what", "text"})
"""Properties of a finding and of a statement that are words for people."""
READERS = frozenset(
    {
        *("endswith", "find", "fullmatch", "index", "match", "partition", "removeprefix"),
        *("removesuffix", "rpartition", "rsplit", "search", "split", "startswith"),
    }
)
"""Methods that read a part of a text."""
IMPORTS = re.compile(r"\b(?:Findings?|Statement)\b")
"""Pattern of the text of a module that may have findings."""
HOLDERS = frozenset({"each", "finding", "statement"})
"""Names of variables with a finding or a statement."""


def parsed_words(text: str) -> Iterator[str]:
    """Yield the lines of a module that compare or parse the words of a finding."""
    for node in ast.walk(ast.parse(text)):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = [node.func.value, *node.args] if node.func.attr in READERS else []
        elif isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        if any(map(_is_words, asked)):
            yield f"{node.lineno}: {ast.unparse(node)}"


def _is_words(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and node.attr in WORDS
        and isinstance(node.value, ast.Name)
        and node.value.id in HOLDERS
    )


def test_no_code_parses_the_words_of_a_finding() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in PRODUCT
        for path in sorted((ROOT / folder).rglob("*.py"))
        if IMPORTS.search(text := path.read_text(encoding="utf-8"))
        for line in parsed_words(text)
        if "Restriction." not in line
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "finding.what.removeprefix('taint ')",
        "finding.what == 'pool'",
        "each.what in SECTIONS",
        "STEP.fullmatch(finding.what)",
        "statement.what.startswith('step ')",
    ],
)
def test_a_parsed_word_is_found(line: str) -> None:
    assert list(parsed_words(line)) == [f"1: {line}"]
