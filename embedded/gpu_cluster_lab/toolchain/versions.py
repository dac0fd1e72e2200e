"""Parse versions as release pages write them: three numbers, with or without a leading ``v``."""

from __future__ import annotations

import re
from dataclasses import dataclass

_VERSION = re.compile(r"(?<![\d.])v?(\d+)\.(\d+)(?:\.(\d+))?")

Numbers = tuple[int, int, int]


def find(text: str) -> str | None:
    """Return the first version in a text without its ``v``, or ``None``."""
    match = _VERSION.search(text)
    if match is None:
        return None
    return ".".join(group or "0" for group in match.groups())


def numbers(version: str) -> Numbers:
    """Return the numbers of a version: ``"3.6.5"`` becomes ``(3, 6, 5)``.

    Raises:
        ValueError: The text is not a version.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        raise ValueError(
            f"not a version: {version!r}, wanted three numbers such as 3.6.5; cure: write all three"
        )
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


@dataclass(frozen=True)
class Range:
    """Range of versions that are equally usable.

    Attributes:
        least: The first version in the range.
        below: The first version that is too new for the range.
    """

    least: str
    below: str

    def holds(self, version: str) -> bool:
        """Check that a version is in the range."""
        return numbers(self.least) <= numbers(version) < numbers(self.below)

    def __str__(self) -> str:
        """Return the range as a text such as ``>= 3.6.8, < 3.7.0``."""
        return f">= {self.least}, < {self.below}"
