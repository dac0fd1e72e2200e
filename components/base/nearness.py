"""How alike two words are, and which of several is nearest to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: From this likeness on, a wrong word was probably meant to be the other.
LIKE_ENOUGH = 0.6


def nearest(word: str, words: Iterable[str]) -> str:
    """The word most like `word`: by the longest matching parts, capital letters not counting."""
    return max(words, key=lambda known: similarity(word, known))


def similarity(one: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (the same but for capitals, '-' and '_')."""
    return difflib.SequenceMatcher(None, plain(one), plain(other), autojunk=False).ratio()


def plain(word: str) -> str:
    """A key without capitals and separators: `gpus_per_node` as `gpuspernode`."""
    return word.lower().replace("-", "").replace("_", "")
