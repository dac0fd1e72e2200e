"""Convert an unquoted YAML scalar to the type and value that kubectl gives it.

kubectl parses YAML with sigs.k8s.io/yaml v1.6.0, which uses go.yaml.in/yaml/v2 v2.4.2 (resolve.go).
For this parser `yes`, `on` and `y` are booleans, `010` is 8, and dates are strings. `0o10` is a
number only if Go's package strconv parses it as one.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"], True),
    **dict.fromkeys(["on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE"], False),
    **dict.fromkeys(["off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_HINT: Final = frozenset("+-.0123456789")
# An integer with the syntax of Go's strconv.ParseInt with base 0, without underscores.
_INTEGER: Final = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))"
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Maximum number of characters of a number; a longer scalar is treated as a string.
_LONGEST: Final = 400
_BASES: Final = (16, 2, 8, 10)


@lru_cache(maxsize=65536)
def resolve(value: str) -> Scalar:
    """Return the value of a plain (unquoted) YAML scalar, as kubectl parses it."""
    if value in _WORDS:
        return _WORDS[value]
    if value[0] not in _HINT or len(value) > _LONGEST:
        return value
    plain = value if value[0] == "." else value.replace("_", "")
    if (integer := _INTEGER.fullmatch(plain)) and (number := _integer(integer)) is not None:
        return number
    if _FLOAT.fullmatch(plain):
        amount = float(plain)
        return amount if math.isfinite(amount) else value
    return value


def _integer(match: re.Match[str]) -> int | None:
    sign, *digits = match.groups()
    base, written = next((b, d) for b, d in zip(_BASES, digits, strict=True) if d)
    number = -int(written, base) if sign == "-" else int(written, base)
    fits = -(2**63) <= number < 2**63 or (not sign and number < 2**64)
    return number if fits else None
