"""Kubernetes quantities such as `8`, `500m`, `1e3` and `1Ki`, parsed as the API server does.

Source: k8s.io/apimachinery v0.34.4 pkg/api/resource (quantity.go ParseQuantity, amount.go,
scale_int.go). Rounding up to thousandths: SetDefaults_ResourceList in kubernetes v1.34.4
pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import math
import re
from ctypes import c_int64
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO = -9
# Suffixes that ParseQuantity rejects without digits; any other suffix without digits is zero.
_NEVER_BARE = ("Pi", "Ei")
# Go's positiveScaleInt64 converts an amount to thousandths. If the product needs more than 64 bits,
# it keeps the lowest 64 for these powers of ten, and returns 0 for all others.
_WRAPPED = (-2, -1, 0, 3, 6)
_INT64_MAX = 2**63 - 1
# A number with this many decimal digits always fits into an int64 (k8s.io/apimachinery, math.go).
_INT64_DIGITS = 18
# This program's own limit: the API server accepts any exponent, but needs minutes for large ones.
_EXPONENT_LIMIT = 1_000
# This program's own limit: the API server accepts long numbers, but needs minutes to parse them.
_LENGTH_LIMIT = 1_000
_INTEGER_LIMIT = 10**_LENGTH_LIMIT
# This program's own limit for a number of devices: no node advertises so many.
_COUNT_LIMIT = 10**9
# Larger amounts are not converted to float, whose maximum is about 1.8e308.
_FLOAT_LIMIT = 10**300


class QuantityError(ValueError):
    """Error: a value is not a Kubernetes quantity."""

    cure = "write a quantity such as 500m or 8Gi"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity, rounded up to thousandths as the API server does.

    Attributes:
        milli: Exact amount in thousandths.
        api_milli: Result of Go's `Quantity.MilliValue`, which overflows a 64-bit integer above
            9.2e15. The API server's test for whole numbers uses it.
        written: Text that the quantity was parsed from.
    """

    milli: int
    api_milli: int
    written: str

    @property
    def whole(self) -> bool:
        """Return whether the API server accepts the amount as an integer.

        Source: kubernetes v1.34.4 pkg/apis/core/validation/validation.go,
        ValidateResourceQuantityValue.
        """
        return self.api_milli % 1000 == 0

    @property
    def units(self) -> Fraction:
        """Return the amount in whole units."""
        return Fraction(self.milli, 1000)

    def __str__(self) -> str:
        """Return the text that the quantity was parsed from."""
        return self.written


def parse(value: object) -> Quantity:
    """Parse a quantity from the text or number in a manifest.

    Raises:
        QuantityError: The API server would reject the value, its exponent is beyond ±1,000, or its
            text has more than 1,000 characters.
    """
    # The API server reads null as zero (Quantity.UnmarshalJSON).
    if value is None:
        return Quantity(0, 0, "0")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"{type(value).__name__} is not a quantity")
    if isinstance(value, int) and abs(value) >= _INTEGER_LIMIT:
        raise QuantityError(f"a number of more than {_LENGTH_LIMIT} digits is not a quantity")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise QuantityError(f"{value} is not a quantity")
        value = int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return _parse(str(value))


def is_equal(first: object, second: object) -> bool:
    """Return whether two values are quantities of the same amount."""
    try:
        return parse(first).milli == parse(second).milli
    except QuantityError:
        return False


def read_milli(value: object) -> int:
    """Return an amount of an API server's object in thousandths; 0 if it is not a quantity."""
    try:
        return parse(value).milli
    except QuantityError:
        return 0


def plausible_count(milli: int) -> int:
    """Return thousandths as a number of devices, rounded up; 0 below zero and from 10^9 on.

    The API server writes 1000 devices as `1k`, so a count of a Node or a pod is a quantity too.
    """
    units = -(-milli // 1000)
    return units if units in range(_COUNT_LIMIT) else 0


def read_count(value: object) -> int:
    """Return a number of devices in a Node's status; 0 if it is no quantity or not plausible.

    An API server writes no blanks around a quantity, so a text with blanks is no quantity here.
    """
    if isinstance(value, str) and value != value.strip():
        return 0
    return plausible_count(read_milli(value))


def show(amount: Fraction | int) -> str:
    """Return an amount as a short text for a message, however large the amount is."""
    if abs(Fraction(amount)) < _FLOAT_LIMIT:
        return f"{float(amount):g}"
    return f"{Decimal(int(amount)).normalize():.6g}"


@lru_cache(maxsize=4096)
def _parse(written: str) -> Quantity:
    stripped = written.strip()
    if len(written) > _LENGTH_LIMIT:
        raise QuantityError(f"a text of {len(written)} characters is not a quantity")
    match = _FORM.fullmatch(stripped)
    if not stripped or match is None:
        raise QuantityError(f"{written!r} is not a quantity")
    sign, whole, decimals, suffix = match[1], match[2].lstrip("0"), match[3] or "", match[4]
    base, exponent = _parse_suffix(suffix, written)
    scale = exponent - len(decimals)
    # ParseQuantity keeps short decimal amounts as a 64-bit integer and a power of ten.
    is_exact = base == 10 and len(whole or "0") + len(decimals) <= _INT64_DIGITS and scale >= _NANO
    if not match[2] + decimals and (scale < _NANO or suffix in _NEVER_BARE):
        raise QuantityError(f"{written!r} has no digits")
    amount = int(whole + decimals or "0") * Fraction(base) ** exponent / 10 ** len(decimals)
    if base == 2:
        amount = min(amount, Fraction(_INT64_MAX))
    milli = math.ceil(amount * 1000)
    api_milli = _low_bits(milli)
    if is_exact and api_milli != milli and scale not in _WRAPPED:
        api_milli = 0
    if sign == "-":
        milli, api_milli = -milli, _low_bits(-api_milli)
    return Quantity(milli, api_milli, stripped)


def _parse_suffix(suffix: str, written: str) -> tuple[int, int]:
    """Return the base (10 or 2) and the exponent of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise QuantityError(f"{written!r} has an unknown suffix {suffix!r}")
    exponent = int(match[1])
    if abs(exponent) > _EXPONENT_LIMIT:
        raise QuantityError(f"{written!r} has an exponent beyond ±{_EXPONENT_LIMIT}")
    return 10, exponent


def _low_bits(value: int) -> int:
    """Return the low 64 bits of a number as a signed integer, as Go's big.Int.Int64 does."""
    return c_int64(value).value
