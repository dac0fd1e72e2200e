"""Values that are not known yet, and reading a manifest of which nothing is certain.

At `pulumi preview` some values of a resource are only known once another resource exists. A
rule must still judge the rest, so such values are replaced by `UNKNOWN`, and every read goes
through the functions below: they never raise, whatever the manifest holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final


class Unknown:
    """The type of `UNKNOWN`. It is neither true nor false: compare by identity only."""

    def __repr__(self) -> str:
        return "UNKNOWN"

    def __bool__(self) -> bool:
        raise TypeError("UNKNOWN has no truth value: compare it with `is UNKNOWN`")


UNKNOWN: Final = Unknown()


def mapping(value: object) -> Mapping[str, object]:
    """`value` if it is a mapping, else an empty one. Keys that are not text are left out."""
    if type(value) is dict:
        for key in value:
            if type(key) is not str:
                break
        else:
            return value  # by far the most, without a copy
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if isinstance(key, str)}
    return {}


def sequence(value: object) -> Sequence[object]:
    """`value` if it is a list, else an empty one."""
    # Here and below the concrete type comes first: an abstract one is slow to ask.
    if isinstance(value, (list, Sequence)) and not isinstance(value, (str, bytes)):
        return value
    return ()


def text(value: object) -> str:
    """`value` if it is text, else an empty text."""
    return value if isinstance(value, str) else ""


def holds_unknown(value: object) -> bool:
    """Whether `value` is `UNKNOWN` or a list or mapping with an `UNKNOWN` directly in it."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(item is UNKNOWN for item in value.values())
    return any(item is UNKNOWN for item in sequence(value))


def at(value: object, *path: str) -> object:
    """The value under `path`: `UNKNOWN` if a part of the path is, `None` if one is missing."""
    for key in path:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, (dict, Mapping)) else None
    return value
