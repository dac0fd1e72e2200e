"""Read a number from a log by a pattern of words.

The patterns are not regular expressions, because some regular expressions take hours on a log that
somebody else wrote. The time to compare words grows only linearly with the size of the log.
"""

from __future__ import annotations

import math

FIGURE = "{figure}"
"""Placeholder for the number in a pattern."""
ANY = "*"
"""Placeholder for any single word in a pattern."""
LOG_LINES = 500
"""Number of lines that are read from the end of a log."""
LOG_BYTES = 64 * 1024
"""Maximum number of bytes that are read from the end of a log."""


def figure(pattern: str, log: str) -> float | None:
    """Return the number in the log lines that match the pattern; the lowest one if several match.

    Args:
        pattern: Words separated by blanks, one of them with `FIGURE` in it. A line matches if it
            contains the words one after the other.
        log: Output of a program.

    Returns:
        The lowest number found, or None if no line matches.

    >>> figure("# Avg bus bandwidth : {figure}", "# Avg bus bandwidth    : 373.187")
    373.187
    """
    words = pattern.split()
    figures = [figure for line in log.splitlines() for figure in _in_line(words, line.split())]
    return min(figures, default=None)


def _in_line(pattern: list[str], words: list[str]) -> list[float]:
    starts = range(len(words) - len(pattern) + 1)
    figures = (_match_words(pattern, words[start : start + len(pattern)]) for start in starts)
    return [figure for figure in figures if figure is not None]


def _match_words(pattern: list[str], words: list[str]) -> float | None:
    number = None
    for pattern_word, word in zip(pattern, words, strict=True):
        if FIGURE in pattern_word:
            before, _, after = pattern_word.partition(FIGURE)
            number = _parse_figure(word, before, after)
            if number is None:
                return None
        elif pattern_word not in (ANY, word):
            return None
    return number


def _parse_figure(word: str, before: str, after: str) -> float | None:
    if not (word.startswith(before) and word.endswith(after)):
        return None
    try:
        number = float(word[len(before) : len(word) - len(after)])
    except ValueError:
        return None
    return number if math.isfinite(number) else None
