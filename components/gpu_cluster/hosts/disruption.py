"""Settings of a host whose change disrupts the pods of its node.

A script contains these settings as lines `<step> <words>`. The host records the lines that it was
last applied with (`steps/library/disruption.sh`), and the host probe reports them. So the host
itself shows which changes still need a rollout, even after a run that was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_cluster.base.compatibility import version

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
        " ".join(
            (step, *filter(None, (_setting_word(name, settings.get(name, "")) for name in names)))
        )
        for step, names in kinds.items()
        if any(name in settings for name in names)
    )


def _setting_word(name: str, value: str) -> str:
    """Return a setting's value without spaces; of a list of packages only the first package.

    The versions of the other packages follow the first package's version.
    """
    if name.endswith("_PACKAGES"):
        value = value.split(" ")[0]
    plain = all(character.isalnum() or character in ".+~=:/_-," for character in value)
    if plain and len(value) <= LONGEST:
        return value
    return hashlib.sha256(value.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class StepChange:
    """Disruptive settings of one step that differ from those that a host was last applied with.

    Attributes:
        step: Name of the step; `unfinished` for a change that was interrupted.
        was: Words of the settings that differ, as last applied. Empty: the step was not applied.
        now: Words of the desired settings that differ; of an interrupted change, the desired steps.
            Empty: the step is not declared.
    """

    step: str
    was: tuple[str, ...] = ()
    now: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the change in words, such as `driver 570.1 → 580.2`."""
        if self.step == UNFINISHED:
            return f"unfinished change to {', '.join(self.now) or 'nothing'}"
        return f"{self.step} {' '.join(self.was) or 'none'} → {' '.join(self.now) or 'none'}"

    @property
    def versions(self) -> tuple[str, str] | None:
        """Return the old and the new version; None if something else than a version changes."""
        if len(self.was) != 1 or len(self.now) != 1:
            return None
        # A word is a version, or a package with its version (`kubelet=1.34.4`).
        was, now = (word.rpartition("=")[2] for word in (*self.was, *self.now))
        return (was, now) if len(version(was)) > 1 and len(version(now)) > 1 else None


def steps(text: str) -> dict[str, tuple[str, ...]]:
    """Return the words of each line `<step> <words>`, by step."""
    rows = [line.split(" ") for line in text.splitlines() if line]
    return {step: tuple(words) for step, *words in rows}


def changes(before: str, after: str) -> tuple[StepChange, ...]:
    """Return the steps whose lines differ."""
    old, new = steps(before), steps(after)
    if UNFINISHED in old:
        return (StepChange(UNFINISHED, now=tuple(new)),)
    return tuple(
        _step_change(step, old.get(step, ()), new.get(step, ()))
        for step in dict.fromkeys((*old, *new))
        if old.get(step) != new.get(step)
    )


def _step_change(step: str, old: tuple[str, ...], new: tuple[str, ...]) -> StepChange:
    """Return the change of a step: the words that differ, or all if the lines' lengths differ."""
    if len(old) == len(new):
        pairs = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
        old, new = tuple(was for was, _ in pairs), tuple(now for _, now in pairs)
    return StepChange(step, old, new)
