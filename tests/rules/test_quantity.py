"""Quantities are read as Kubernetes reads them.

`quantities.json` holds what k8s.io/apimachinery v0.34.4 itself answers: text, MilliValue after
rounding up to milli (null where it refuses the text), sign.
"""

from __future__ import annotations

import contextlib
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.rules.quantity import QuantityError, parse

TABLE = json.loads((Path(__file__).parent / "quantities.json").read_text())
SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(2**10),
    "Mi": Fraction(2**20), "e3": Fraction(10**3), "E-3": Fraction(1, 1000), "e+1": Fraction(10),
}  # fmt: skip


@pytest.mark.parametrize(("written", "milli", "sign"), TABLE, ids=[repr(row[0]) for row in TABLE])
def test_agrees_with_apimachinery(written: str, milli: int | None, sign: int) -> None:
    if milli is None:
        with pytest.raises(QuantityError):
            parse(written)
    else:
        quantity = parse(written)
        assert (quantity.api_milli, (quantity.milli > 0) - (quantity.milli < 0)) == (milli, sign)


@given(
    st.integers(0, 10**6),
    st.text("0123456789", max_size=9),
    st.sampled_from(sorted(SUFFIXES)),
)
def test_rounds_up_to_milli_exactly(whole: int, decimals: str, suffix: str) -> None:
    exact = Fraction(int(f"{whole}{decimals}"), 10 ** len(decimals)) * SUFFIXES[suffix]
    quantity = parse(f"{whole}.{decimals}{suffix}")
    nano = Fraction(math.ceil(exact * 10**9), 10**9)
    assert quantity.milli == math.ceil(nano * 1000)
    assert quantity.whole == (quantity.milli % 1000 == 0)
    assert parse(f"-{whole}.{decimals}{suffix}").milli == -quantity.milli


@given(st.integers(-(10**12), 10**12))
def test_a_number_is_read_as_its_text(number: int) -> None:
    assert parse(number).milli == parse(str(number)).milli == parse(float(number)).milli


def test_a_number_that_python_writes_with_an_exponent_is_read_so() -> None:
    assert parse(1.2e16).api_milli == parse("1.2e+16").api_milli == 0


@given(st.text() | st.floats() | st.booleans() | st.lists(st.integers()) | st.none())
def test_anything_is_a_quantity_or_refused(value: object) -> None:
    with contextlib.suppress(QuantityError):
        assert isinstance(parse(value).milli, int)


@pytest.mark.parametrize("bomb", ["1e999999999", "9" * 5000, "1e-2147483648", "0e99999"])
def test_a_huge_number_is_refused_at_once(bomb: str) -> None:
    with pytest.raises(QuantityError):
        parse(bomb)
