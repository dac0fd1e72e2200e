"""Short texts for long lists of names. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from policies.printable import printable, shortened

MOST = 6
"""Maximum number of names or ranges that one text lists; further names are only counted."""
LONGEST = 80
"""Maximum number of characters of one name; longer names are shortened (Kubernetes allows 253)."""
_NUMBERED = re.compile(r"(?P<head>.*?)(?P<number>[0-9]{1,9})")


def ranges(names: Iterable[str]) -> list[str]:
    """Return names with consecutive numbers as ranges: `gpu-1`, `gpu-2` become `gpu-1..2`.

    Leading zeros of numbers stay: `h100-01..16`.
    """
    found: list[list[str]] = []
    for name in names:
        if found and _follows(found[-1][-1], name):
            found[-1].append(name)
        else:
            found.append([name])
    return list(_texts(found))


def _texts(groups: Iterable[list[str]]) -> Iterator[str]:
    for group in groups:
        first, last = group[0], group[-1]
        match = _NUMBERED.fullmatch(last)
        if len(group) == 1 or match is None:
            yield short(first)
        else:
            yield f"{short(first)}..{match['number']}"


def short(name: str) -> str:
    """Return a printable name; a long one keeps its beginning and its end, which tell it apart."""
    if len(name) > LONGEST:
        half = LONGEST // 2
        name = f"{name[:half]}…{name[-half:]}"
    return printable(name)


def _follows(before: str, after: str) -> bool:
    one, two = _NUMBERED.fullmatch(before), _NUMBERED.fullmatch(after)
    if one is None or two is None or one["head"] != two["head"]:
        return False
    first, second = one["number"], two["number"]
    padded = first.startswith("0") or second.startswith("0")
    return int(second) == int(first) + 1 and (len(first) == len(second) or not padded)


def listed(names: Iterable[str], most: int = MOST) -> str:
    """Return names as ranges in one text; ranges after the first `MOST` are only counted."""
    return shortened(ranges(names), most)


def and_more(number: int, most: int) -> str:
    """Return a text about omitted names, such as ` and 3 more`; empty if no name is omitted."""
    return f" and {number - most} more" if number > most else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
