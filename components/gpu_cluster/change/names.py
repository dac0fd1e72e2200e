"""Short texts for long lists of names. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_cluster.settings.nodes.node_range import runs, split
from gpu_rules.printable import printable, shortened

MOST = 6
"""Maximum number of names or ranges that one text lists; further names are only counted."""
LONGEST = 80
"""Maximum number of characters of one name; longer names are shortened (Kubernetes allows 253)."""


def ranges(names: Iterable[str]) -> list[str]:
    """Return names with consecutive numbers as ranges: `gpu-1`, `gpu-2` become `gpu-1..2`.

    Leading zeros of numbers stay: `h100-01..16`.
    """
    return [
        short(run[0]) + (f"..{split(run[-1])[1]}" if len(run) > 1 else "") for run in runs(names)
    ]


def short(name: str) -> str:
    """Return a printable name; the middle of a long name is replaced by an ellipsis."""
    if len(name) > LONGEST:
        half = LONGEST // 2
        name = f"{name[:half]}…{name[-half:]}"
    return printable(name)


def listed(names: Iterable[str], most: int = MOST) -> str:
    """Return names as ranges in one text; ranges after the first `MOST` are only counted."""
    return shortened(ranges(names), most)


def and_more(number: int, most: int) -> str:
    """Return a text about omitted names, such as ` and 3 more`; empty if no name is omitted."""
    return f" and {number - most} more" if number > most else ""
