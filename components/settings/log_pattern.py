"""Reading a figure from a log, by a pattern of words. Pure functions.

No regular expression: whoever writes one can make it run for hours on a log that somebody else
wrote. Comparing words takes as long as the log is.
"""

from __future__ import annotations

import math

FIGURE = "{figure}"
"""In a pattern: the number."""
ANY = "*"
"""In a pattern: any one word."""
LOG_LINES = 500
"""Lines at the end of a log that are read."""
LOG_BYTES = 64 * 1024
"""Bytes of them."""


def figure(pattern: str, log: str) -> float | None:
    """The number where a pattern says; the lowest where several lines hold one; None where none.

    Args:
        pattern: words, one of them with `FIGURE`. They must follow each other in a line.
        log: what a program printed.

    >>> figure("# Avg bus bandwidth : {figure}", "# Avg bus bandwidth    : 373.187")
    373.187
    """
    words = pattern.split()
    figures = [figure for line in log.splitlines() for figure in _in_line(words, line.split())]
    return min(figures, default=None)


def _in_line(pattern: list[str], words: list[str]) -> list[float]:
    starts = range(len(words) - len(pattern) + 1)
    read = (_at(pattern, words[start : start + len(pattern)]) for start in starts)
    return [figure for figure in read if figure is not None]


def _at(pattern: list[str], words: list[str]) -> float | None:
    number = None
    for wanted, word in zip(pattern, words, strict=True):
        if FIGURE in wanted:
            before, _, after = wanted.partition(FIGURE)
            number = _number(word, before, after)
            if number is None:
                return None
        elif wanted not in (ANY, word):
            return None
    return number


def _number(word: str, before: str, after: str) -> float | None:
    if not (word.startswith(before) and word.endswith(after)):
        return None
    try:
        number = float(word[len(before) : len(word) - len(after)])
    except ValueError:
        return None
    return number if math.isfinite(number) else None
