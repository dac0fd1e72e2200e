"""Settings of a host whose change disrupts the pods of its node.

A script contains these settings as lines `<step> <words>`. The host records the lines that it was
last applied with (`steps/library/disruption.sh`), and the host probe reports them. So the host
itself shows which changes still need a rollout, even after a run that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SETTING = "GC_DISRUPTS"
"""Name of the script variable that holds the lines with disruptive settings."""
UNFINISHED = "unfinished"
"""Step name that a host reports while a disruptive change is under way."""
LONGEST = 48
"""Maximum number of characters of one value; a longer value is replaced by its digest."""


def lines(settings: Mapping[str, str], kinds: Mapping[str, tuple[str, ...]]) -> str:
    """Return a script's lines of disruptive settings, one for each step that has such settings.

    Args:
        settings: Settings of the script.
        kinds: By step, the settings whose change disrupts pods. Settings that only apply to
            processes started later are not included.
    """
    return "\n".join(
        " ".join((step, *filter(None, (_word(name, settings.get(name, "")) for name in names))))
        for step, names in kinds.items()
        if any(name in settings for name in names)
    )


def _word(name: str, value: str) -> str:
    """Return a setting's value without spaces; of a list of packages only the first package.

    The versions of the other packages follow the first package's version.
    """
    if name.endswith("_PACKAGES"):
        value = value.split(" ")[0]
    plain = all(character.isalnum() or character in ".+~=:/_-," for character in value)
    if plain and len(value) <= LONGEST:
        return value
    return hashlib.sha256(value.encode()).hexdigest()[:12]


def steps(text: str) -> dict[str, str]:
    """Return the words of each line `<step> <words>`, by step."""
    return {line.split(" ", 1)[0]: line.partition(" ")[2] for line in text.splitlines() if line}


def changes(before: str, after: str) -> tuple[str, ...]:
    """Return the differences between old and new lines as text, such as `driver 570.1 → 580.2`."""
    old, new = steps(before), steps(after)
    if UNFINISHED in old:
        return (f"unfinished change to {', '.join(new) or 'nothing'}",)
    return tuple(
        f"{step} {_difference(old.get(step, 'none'), new.get(step, 'none'))}"
        for step in dict.fromkeys((*old, *new))
        if old.get(step) != new.get(step)
    )


def _difference(old: str, new: str) -> str:
    """Return the old and new words that differ; all words if the two lines differ in length."""
    words, others = old.split(" "), new.split(" ")
    if len(words) == len(others):
        pairs = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
        old, new = (" ".join(side) for side in zip(*pairs, strict=True))
    return f"{old} → {new}"
