"""Similarity of words, to suggest a valid word in place of a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# Lowest similarity (0 to 1) at which a word counts as a misspelling of a valid word.
LIKE_ENOUGH = 0.6


def nearest(word: str, words: Iterable[str]) -> str:
    """Return the word that is most similar to `word`; capitals and separators are ignored."""
    return max(words, key=lambda candidate: similarity(word, candidate))


def similarity(first: str, second: str) -> float:
    """Return a number from 0 (nothing in common) to 1 (equal except for capitals, '-' and '_')."""
    return difflib.SequenceMatcher(None, plain(first), plain(second), autojunk=False).ratio()


def plain(word: str) -> str:
    """Return a key without capitals and separators: `gpus_per_node` becomes `gpuspernode`."""
    return word.lower().replace("-", "").replace("_", "")
