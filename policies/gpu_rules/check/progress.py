"""Show on standard error how far long work has come."""

from __future__ import annotations

import sys
import time
from typing import Final

EVERY: Final = 3.0
"""Seconds between two lines, and before the first one: short work is silent."""


class Progress:
    """A count of finished work that is printed from time to time."""

    def __init__(self, total: int, what: str) -> None:
        """Start to count.

        Args:
            total: Number of pieces of work.
            what: The pieces and what is done to them, in words.
        """
        self._total, self._what, self._done = total, what, 0
        self._last = time.monotonic()

    def advance(self) -> None:
        """Count one more piece, and print the count if the last line is some seconds old."""
        self._done += 1
        if (now := time.monotonic()) - self._last >= EVERY:
            self._last = now
            print(f"{self._done} of {self._total} {self._what}", file=sys.stderr, flush=True)
