"""Quantities are parsed as Kubernetes parses them.

`quantities.json` has the results of k8s.io/apimachinery v0.34.4: the text, MilliValue after
rounding up to thousandths (null if it rejects the text), and the sign.
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

from gpu_rules.kube.quantity import QuantityError, is_equal, parse, read_count, show

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


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "0"), (8.0, "8"), (200.0, "200"), (2.0**53, "9007199254740992.0"), (0.5, "0.5")],
)
def test_a_value_is_shown_as_a_person_would_write_it(value: object, written: str) -> None:
    quantity = parse(value)
    assert (str(quantity), quantity.milli) == (written, parse(written).milli)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "bool is not a quantity"),
        (math.inf, "inf is not a quantity"),
        ("8 GPUs", "'8 GPUs' is not a quantity"),
        ("8i", "'8i' has an unknown suffix 'i'"),
        ("Ei", "'Ei' has no digits"),
        (10**1000, "a number of more than 1000 digits is not a quantity"),
        ("1e1001", "'1e1001' has an exponent beyond ±1000"),
        ("1" * 1001, "a text of 1001 characters is not a quantity"),
    ],
)
def test_a_refusal_says_what_was_found(value: object, message: str) -> None:
    with pytest.raises(QuantityError) as refused:
        parse(value)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [("0.5", "500m", True), (1, "1", True), ("1", "2", False), ("a", "a", False), (0, "", False)],
)
def test_two_texts_of_one_amount_are_equal(first: object, second: object, equal: bool) -> None:
    assert is_equal(first, second) is equal


@pytest.mark.parametrize(
    ("written", "count"),
    [
        ("1k", 1000),
        (8, 8),
        ("1500m", 2),
        ("-1", 0),
        ("many", 0),
        ("1e9", 0),
        (999_999_999, 999_999_999),
    ],
)
def test_a_number_of_devices_is_whole_and_plausible(written: object, count: int) -> None:
    assert read_count(written) == count


@pytest.mark.parametrize(
    ("amount", "text"),
    [(Fraction(3, 2), "1.5"), (8, "8"), (10**299, "1e+299"), (10**310, "1e+310")],
)
def test_an_amount_of_any_size_has_a_short_text(amount: Fraction | int, text: str) -> None:
    assert show(amount) == text


@pytest.mark.parametrize("written", ["1e1000", "-1e-1000", "1" * 1000])
def test_the_largest_that_is_taken_is_taken(written: str) -> None:
    assert parse(written).milli != 0


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
