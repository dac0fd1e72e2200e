"""`UNKNOWN` for values that are not known yet, and functions that read a manifest safely.

During `pulumi preview`, some values of a resource are known only after another resource exists. A
rule must still check the other values, so unknown values are replaced by `UNKNOWN`. The functions
below never raise an error, whatever the manifest contains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final


class Unknown:
    """The type of `UNKNOWN`, which has no truth value: compare it by identity only."""

    def __repr__(self) -> str:
        """Return the constant's name, `UNKNOWN`."""
        return "UNKNOWN"

    def __reduce__(self) -> str:
        """Return the constant's name, so that unpickling returns `UNKNOWN` itself."""
        return "UNKNOWN"

    def __bool__(self) -> bool:
        """Raise an error, so that no code uses an unknown value as true or false."""
        raise TypeError("UNKNOWN has no truth value: compare it with `is UNKNOWN`")


UNKNOWN: Final = Unknown()
_INT32_MAX: Final = 2**31 - 1


def mapping(value: object) -> Mapping[str, object]:
    """Return the value if it is a mapping, else an empty mapping; drop keys that are not text."""
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                break
        else:
            # Nearly all manifests have only text as keys, so they are returned without a copy.
            return value
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if isinstance(key, str)}
    return {}


def sequence(value: object) -> Sequence[object]:
    """Return the value if it is a list, else an empty list."""
    # `list` is checked before the abstract type `Sequence`, because checks against abstract types
    # are slow.
    if isinstance(value, (list, Sequence)) and not isinstance(value, (str, bytes)):
        return value
    return ()


def text(value: object) -> str:
    """Return the value if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def number(value: object) -> int | None:
    """Return a whole number between 0 and the largest int32, or None for any other value.

    Pulumi passes numbers as floats. The API server accepts no larger number of pods, retries or
    seconds.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value <= _INT32_MAX and value == int(value) else None


def holds_unknown(value: object) -> bool:
    """Return whether a value is `UNKNOWN` or directly contains `UNKNOWN`."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(item is UNKNOWN for item in value.values())
    return any(item is UNKNOWN for item in sequence(value))


def at(value: object, *path: str) -> object:
    """Return the value at a path, `None` if a part is missing, `UNKNOWN` if a part is unknown."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, (dict, Mapping)) else None
    return value
