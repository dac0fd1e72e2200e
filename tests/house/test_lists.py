"""A list that several modules need has one home, or the register compares its copies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.house import lists
from lab.house.tree import Tree

PRODUCT = frozenset({"gpu_cluster", "gpu_rules", "maintenance"})


def test_each_list_of_several_modules_is_derived_or_compared(ours: Tree) -> None:
    assert lists.unregistered(ours, PRODUCT) == []


def test_the_register_names_no_list_that_is_gone(ours: Tree) -> None:
    names = {name for group in lists.OTHER_THINGS.values() for name in group}
    written = lists.read_lists(ours)
    assert {name for name in names if not any(one.is_named(name) for one in written)} == set()


COPY = 'NAMES = ("a", "b", "c", "d")'


@pytest.mark.parametrize(
    "text",
    [
        'NAMES = ("a", "b", "c")',
        'NAMES: Final = frozenset({*("a", "b"), "c"})',
        'NAMES = ["x", "c"] + ["b", "a"]',
        'NAMES = {"a": 1, "b": 2, "c": 3}',
        'Names = Literal["a", "b", "c"]',
        'class Names(StrEnum):\n    A = "a"\n    B = "b"\n    C = "c"',
    ],
)
def test_a_list_that_another_module_also_writes_is_found(
    grow: Callable[..., Tree], text: str
) -> None:
    found = lists.repetitions(lists.read_lists(grow(one=COPY, two=text)))
    assert [line.partition(": ")[2] for line in found] == ["a, b, c"]


@pytest.mark.parametrize(
    "text", ['NAMES = ("a", "b")', 'NAMES = ("a", "b", "x")', "from gpu_cluster.one import NAMES"]
)
def test_another_list_is_no_repetition(grow: Callable[..., Tree], text: str) -> None:
    assert lists.repetitions(lists.read_lists(grow(one=COPY, two=text))) == []


@pytest.mark.parametrize(
    ("relation", "own", "holds"),
    [
        ("equal", "ab", True),
        ("equal", "a", False),
        ("part", "a", True),
        ("part", "ac", False),
        ("more", "abc", True),
        ("more", "a", False),
    ],
)
def test_a_registered_list_is_compared(relation: str, own: str, holds: bool) -> None:
    assert lists.is_related(frozenset(own), relation, frozenset("ab")) is holds
