"""Count the lines of a message before the line that counts."""

from __future__ import annotations

import re


def lines_before(counts: str, message: str) -> int:
    """Return how many lines that are not empty stand before the line that counts.

    Args:
        counts: Regular expression for the line.
        message: The whole text that a person gets.
    """
    lines = [line for line in message.splitlines() if line.strip()]
    found = [number for number, line in enumerate(lines) if re.search(counts, line)]
    assert found, message
    return found[0]
