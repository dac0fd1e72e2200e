"""Kubernetes quantities: `8`, `500m`, `1e3`, `1Ki`, exactly as the API server reads them.

Source: k8s.io/apimachinery v0.34.4 pkg/api/resource (quantity.go ParseQuantity, amount.go,
scale_int.go), and the rounding up to milli of SetDefaults_ResourceList in kubernetes v1.34.4
pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO, _MILLI = -9, -3
_INT64_MAX = 2**63 - 1
_INT64_DIGITS = 18  # maxInt64Factors in math.go
_EXPONENT_LIMIT = 1_000  # ours: upstream takes any, and spends minutes on a large one
_LENGTH_LIMIT = 1_000  # ours, likewise


class QuantityError(ValueError):
    """The text is not a quantity."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount after the API server's rounding up to milli.

    `milli`: the exact amount in thousandths. `api_milli`: what Go's `Quantity.MilliValue`
    gives, which overflows a 64-bit integer above 9.2e15; the API server's test for whole
    numbers uses it. `written`: the text it was read from.
    """

    milli: int
    api_milli: int
    written: str

    @property
    def whole(self) -> bool:
        """Whether the API server takes it for an integer resource (validation.go:7808)."""
        return self.api_milli % 1000 == 0

    @property
    def units(self) -> Fraction:
        """The amount in whole units."""
        return Fraction(self.milli, 1000)

    def __str__(self) -> str:
        return self.written


def parse(value: object) -> Quantity:
    """Read a quantity from a manifest's text or number.

    Raises `QuantityError` where the API server would refuse the value, and for exponents
    beyond ±1,000 and texts of more than 1,000 characters.
    """
    if value is None:  # Quantity.UnmarshalJSON reads null as zero
        return Quantity(0, 0, "0")
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise QuantityError(f"{type(value).__name__} is not a quantity")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise QuantityError(f"{value} is not a quantity")
        value = int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return _parse(str(value))


@lru_cache(maxsize=4096)
def _parse(written: str) -> Quantity:
    stripped = written.strip()
    if len(stripped) > _LENGTH_LIMIT:
        raise QuantityError(f"a text of {len(stripped)} characters is not a quantity")
    match = _FORM.fullmatch(stripped)
    if not stripped or match is None:
        raise QuantityError(f"{written!r} is not a quantity")
    sign, whole, decimals, suffix = match[1], match[2].lstrip("0"), match[3] or "", match[4]
    base, exponent = _suffix(suffix, written)
    digits = int(whole + decimals or "0")
    if _fits_int64(whole or "0", decimals, base, exponent):
        milli, api_milli = _small(digits, len(decimals), base, exponent)
    elif match[2] or decimals:
        milli, api_milli = _large(digits, len(decimals), base, exponent)
    else:
        raise QuantityError(f"{written!r} has no digits")
    if sign == "-":
        milli, api_milli = -milli, _wrap(-api_milli)
    return Quantity(milli, api_milli, stripped)


def _suffix(suffix: str, written: str) -> tuple[int, int]:
    """The base (10 or 2) and exponent that a suffix stands for."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix]
    if suffix in _BINARY:
        return 2, _BINARY[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > _INT64_DIGITS:
        raise QuantityError(f"{written!r} has an unknown suffix {suffix!r}")
    exponent = int(match[1])
    if abs(exponent) > _EXPONENT_LIMIT:
        raise QuantityError(f"{written!r} has an exponent beyond ±{_EXPONENT_LIMIT}")
    return 10, exponent


def _fits_int64(whole: str, decimals: str, base: int, exponent: int) -> bool:
    """Whether ParseQuantity keeps the amount as a 64-bit integer and a power of ten."""
    length = len(whole) + len(decimals)
    if base == 10:
        return length <= _INT64_DIGITS and exponent - len(decimals) >= _NANO
    if decimals or 15 - len(whole) - int(exponent * 3 / 10) - 1 < 0:
        return False
    return int(whole) << exponent <= _INT64_MAX


def _small(digits: int, places: int, base: int, exponent: int) -> tuple[int, int]:
    value, scale = (digits << exponent, 0) if base == 2 else (digits, exponent - places)
    if scale < _MILLI:
        value, scale = -(-value // 10 ** (_MILLI - scale)), _MILLI
    milli = value * 10 ** (scale - _MILLI)
    if milli <= _INT64_MAX:
        return milli, milli
    # On overflow positiveScaleInt64 gives the wrapped product, or 0 where it multiplies in a loop.
    return milli, _wrap(milli) if scale - _MILLI in (1, 2, 3, 6, 9) else 0


def _large(digits: int, places: int, base: int, exponent: int) -> tuple[int, int]:
    amount = Fraction(digits) * Fraction(base) ** exponent / 10**places
    if base == 2:
        amount = min(amount, Fraction(_INT64_MAX))
    milli = math.ceil(amount * 1000)
    return milli, _wrap(milli)


def _wrap(value: int) -> int:
    """`value` as Go's big.Int.Int64 gives it: the low 64 bits, signed."""
    return (value + 2**63) % 2**64 - 2**63
