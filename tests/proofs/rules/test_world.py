"""Which rules speak of the same objects of public repositories, by the table `world.tsv`."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from tests.proofs.rules.world import read_table

PAIRS = (("GPU036", "GPU078"), ("GPU022", "GPU079"), ("GPU026", "GPU039"), ("GPU007", "GPU028"))
"""The rules that the reference calls two levels of one."""
FEW = 3
"""Number of objects from which on rules that always come together are more than a chance."""


def test_no_two_rules_always_speak_of_the_same_objects() -> None:
    alone: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for row in read_table():
        rules = sorted(rule for rule in row.expected.split(" ") if rule.startswith("GPU"))
        alone.update(rules)
        together.update(combinations(rules, 2))
    # Two node agents may write device files, and also see other folders.
    assert {pair: together[pair] for pair in PAIRS if together[pair]} == {PAIRS[0]: 2}
    same = {
        (first, second)
        for (first, second), both in together.items()
        if both >= max(FEW, 0.5 * alone[first], 0.5 * alone[second])
    }
    # These Namespaces have neither a quota nor a Pod Security level. They are two facts.
    assert same == {("GPU029", "GPU060")}
