"""The table of the documents' lines is whole, and each line has a test or a reason on a page."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache

import pytest

from tests.proofs.count import Outcome
from tests.proofs.documents.count import line as summary
from tests.proofs.documents.lines import DOCUMENTS, ROOT, Line, lines, reasons

LEFT_OUT = [line for line in lines() if line.page]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Return the names of a file's tests."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_the_table_has_each_documents_lines_once_and_in_their_order() -> None:
    assert Counter(line.document for line in lines()) == {
        name: number for name, (_, number) in DOCUMENTS.items()
    }
    order = [(list(DOCUMENTS).index(line.document), line.number) for line in lines()]
    assert order == sorted(set(order))
    assert all(line.words and line.asks for line in lines())


def test_each_line_has_either_tests_or_a_page() -> None:
    assert [line.name for line in lines() if bool(line.tests) == bool(line.page)] == []


def test_each_named_test_is_there() -> None:
    named = {test.partition("[")[0] for line in lines() for test in line.tests}
    for test in named:
        path, _, function = test.partition("::")
        assert function in functions_of(path), test


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, id=line.name, marks=pytest.mark.documents("page", line.name))
        for line in LEFT_OUT
    ],
)
def test_what_is_left_out_on_purpose_has_its_reason_on_a_page(line: Line) -> None:
    (why,) = (why for guide, why in reasons().items() if line.page in guide)
    assert len(why.split()) >= 8


def test_each_reason_of_the_page_is_that_of_a_line() -> None:
    given = [guide for guide in reasons() if guide != "a guide says"]
    assert [guide for guide in given if not any(each.page in guide for each in LEFT_OUT)] == []


def test_what_did_not_pass_is_not_counted() -> None:
    passed, failed, skipped = (
        {"test": outcome} for outcome in (Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED)
    )
    one, two, three, four = [each for each in lines() if len(each.tests) > 1][:4]
    whole = dict.fromkeys((f"{test}[a]" for test in one.tests), Outcome.PASSED)
    seen = {
        "line": {
            one.name: whole,
            two.name: {two.tests[0]: Outcome.PASSED},  # its other tests were not run
            three.name: dict.fromkeys(three.tests, Outcome.PASSED) | {"a": Outcome.SKIPPED},
            four.name: dict.fromkeys(four.tests, Outcome.FAILED),
        },
        "page": {"d": passed},
        "contradiction": {"e": passed, "f": failed},
        "recipe": {"g": skipped},
        "hami": {"h": passed},
    }
    assert summary(seen) == (
        "2 of 148 lines (1 tried, 1 on purpose with a page), 1 of 2 contradictions found without a "
        "host, 0 of 1 recipes tried, hami 1 of 1 cases as the real scheduler"
    )
