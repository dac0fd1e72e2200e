"""Leave files and folders out of a check, by patterns of their paths."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath

_ANY_FOLDERS = "**"


@dataclass
class IgnoredPaths:
    """Patterns of paths that are not checked.

    Attributes:
        patterns: Patterns split at `/`, relative to the root of the file system.
        count: Number of files and folders that were left out; what lies in such a folder is not
            counted again.
    """

    patterns: tuple[tuple[str, ...], ...] = ()
    count: int = field(default=0, compare=False)

    def includes(self, path: str) -> bool:
        """Return whether a path is left out, and count it if so."""
        if not self.patterns:
            return False
        path_parts = PurePath(os.path.abspath(path)).parts
        is_ignored = any(_matches(path_parts, pattern) for pattern in self.patterns)
        self.count += is_ignored
        return is_ignored


def anchored(patterns: Iterable[str], folder: str) -> tuple[tuple[str, ...], ...]:
    """Return patterns relative to a folder as patterns relative to the root.

    `*` stands for any text in one name, `**` for any number of folders. A pattern without `/`, or
    with one only at its end, matches at any depth below the folder.
    """
    root = PurePath(os.path.abspath(folder)).parts
    return tuple(
        (*root, *(() if "/" in pattern.rstrip("/") else (_ANY_FOLDERS,)), *_names(pattern))
        for pattern in patterns
        if _names(pattern)
    )


def _names(pattern: str) -> list[str]:
    return [name for name in pattern.split("/") if name not in ("", ".")]


def _matches(path_parts: Iterable[str], pattern: tuple[str, ...]) -> bool:
    """Return whether a pattern matches a path or a folder above it.

    All ways to match are followed in parallel, so the time is linear in the length of the path.
    """
    positions = {0}
    for path_part in path_parts:
        following: set[int] = set()
        for position in range(len(pattern)):
            if position not in positions:
                continue
            if pattern[position] == _ANY_FOLDERS:
                positions.add(position + 1)
                following.add(position)
            elif fnmatchcase(path_part, pattern[position]):
                following.add(position + 1)
        # After the last `**` of a pattern, everything below the folder matches.
        if len(pattern) in positions | following:
            return True
        positions = following
    return False
