"""The patterns of exemptions: the same texts match in Python and in CEL, in linear time."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from gpu_rules.rules.exemptions import is_match, pattern

GLOBS = st.text(alphabet="ab.*", max_size=8)


@given(GLOBS, st.text(alphabet="ab.", max_size=10))
def test_a_pattern_matches_the_texts_of_its_regular_expression(glob: str, value: str) -> None:
    assert is_match(glob, value) == (re.search(pattern([glob]), value) is not None)


def test_a_pattern_with_many_stars_is_read_in_one_pass() -> None:
    assert not is_match("*a" * 10_000 + "b", "a" * 100_000)
    assert is_match("*a" * 10_000, "a" * 100_000)
