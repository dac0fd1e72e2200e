"""Versions as release pages write them: three numbers, a leading ``v`` at will."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"(?<![\d.])v?(\d+)\.(\d+)(?:\.(\d+))?")

Numbers = tuple[int, int, int]


def find(text: str) -> str | None:
    """The first version in ``text`` without its ``v``; ``None`` where there is none."""
    match = _VERSION.search(text)
    if match is None:
        return None
    return ".".join(group or "0" for group in match.groups())


def numbers(version: str) -> Numbers:
    """``"3.6.5"`` as ``(3, 6, 5)``. Raises ``ValueError`` for anything else."""
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(f"not a version: {version!r}, wanted three numbers such as 3.6.5")
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


@dataclass(frozen=True)
class Range:
    """Versions that do the same work: from ``least`` on, below ``below``."""

    least: str
    below: str

    def holds(self, version: str) -> bool:
        """Whether ``version`` lies in the range."""
        return numbers(self.least) <= numbers(version) < numbers(self.below)

    def __str__(self) -> str:
        return f">= {self.least}, < {self.below}"
