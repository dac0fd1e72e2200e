"""What of a host's declaration disrupts the pods of its node where it changes.

A script carries it as lines ``<step> <words>``, a host keeps those that it was last applied with
(``steps/library/disruption.sh``), and the probe reports them. So a host says itself what is still
to be rolled, also after a run that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SETTING = "GC_DISRUPTS"
"""Where a script has the lines."""
UNFINISHED = "unfinished"
"""What a host reports while such a change is under way."""
LONGEST = 48
"""Characters of one value; of a longer one its digest stands here."""


def lines(settings: Mapping[str, str], kinds: Mapping[str, tuple[str, ...]]) -> str:
    """Return the lines of a script; a step without any of its settings has none.

    Args:
        settings: the script's settings.
        kinds: by step, those of them whose change disrupts pods. What only the next start of a
            process takes up isn't among them.
    """
    return "\n".join(
        " ".join((step, *filter(None, (_word(name, settings.get(name, "")) for name in names))))
        for step, names in kinds.items()
        if any(name in settings for name in names)
    )


def _word(name: str, value: str) -> str:
    """One value without spaces; of packages the first, whose version the others follow."""
    if name.endswith("_PACKAGES"):
        value = value.split(" ")[0]
    plain = all(character.isalnum() or character in ".+~=:/_-," for character in value)
    if plain and len(value) <= LONGEST:
        return value
    return hashlib.sha256(value.encode()).hexdigest()[:12]


def steps(text: str) -> dict[str, str]:
    """The words by step."""
    return {line.split(" ", 1)[0]: line.partition(" ")[2] for line in text.splitlines() if line}


def changes(before: str, after: str) -> tuple[str, ...]:
    """What differs, as a person reads it: ``driver 570.1 → 580.2``."""
    old, new = steps(before), steps(after)
    if UNFINISHED in old:
        return (f"unfinished change to {', '.join(new) or 'nothing'}",)
    return tuple(
        f"{step} {_difference(old.get(step, 'none'), new.get(step, 'none'))}"
        for step in dict.fromkeys((*old, *new))
        if old.get(step) != new.get(step)
    )


def _difference(old: str, new: str) -> str:
    """Only the words that differ, where the two have as many."""
    words, others = old.split(" "), new.split(" ")
    if len(words) == len(others):
        pairs = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
        old, new = (" ".join(side) for side in zip(*pairs, strict=True))
    return f"{old} → {new}"
