"""Taints of nodes and tolerations of pods, compared as the scheduler compares them.

Source: k8s.io/api v0.36.3 core/v1 toleration.go (ToleratesTaint) and taint.go (MatchTaint,
ToString).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64: Final = range(-(2**63), 2**63)


class TaintEffect(StrEnum):
    """Effect of a taint on pods that do not tolerate the taint."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


_HARD: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of a node; `value` may be empty."""

    key: str
    value: str = ""
    effect: str = TaintEffect.NO_SCHEDULE

    @classmethod
    def of(cls, taint: Mapping[str, Any]) -> Self:
        """Return the taint that an API server's object contains."""
        return cls(taint["key"], taint.get("value") or "", taint.get("effect") or "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the taint that is written as `key=value:Effect` or `key:Effect`."""
        pair, _, effect = text.rpartition(":")
        key, _, value = pair.partition("=")
        return cls(key, value, effect)

    @property
    def is_hard(self) -> bool:
        """Return whether the taint keeps pods off; `PreferNoSchedule` is only a preference."""
        return self.effect in _HARD

    @property
    def evicts(self) -> bool:
        """Return whether the taint ends running pods without a toleration."""
        return self.effect == TaintEffect.NO_EXECUTE

    def is_same(self, other: NodeTaint) -> bool:
        """Return whether two taints are the same one of a node, perhaps with different values."""
        return (self.key, self.effect) == (other.key, other.effect)

    def is_tolerated(self, tolerations: Iterable[Mapping[str, Any]] | None) -> bool:
        """Return whether one of a pod's tolerations tolerates the taint."""
        return any(tolerates(toleration, self) for toleration in tolerations or ())

    def __str__(self) -> str:
        """Return the taint as `key=value:Effect`, or as `key:Effect` if the value is empty."""
        pair = f"{self.key}={self.value}" if self.value else self.key
        return f"{pair}:{self.effect}"


def tolerates(toleration: Mapping[str, Any], taint: NodeTaint) -> bool:
    """Return whether a toleration tolerates a taint.

    The operators `Gt` and `Lt` compare whole numbers. Kubernetes 1.36 accepts them in pods only
    with the feature gate TaintTolerationComparisonOperators.
    """
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.effect) or (key and key != taint.key):
        return False
    value = toleration.get("value") or ""
    match toleration.get("operator"):
        case "Exists":
            return True
        case None | "" | "Equal":
            return bool(value == taint.value)
        case "Gt" | "Lt" as operator:
            bound, number = _canonical_integer(value), _canonical_integer(taint.value)
            if bound is None or number is None:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _canonical_integer(text: object) -> int | None:
    """Return a 64-bit integer in canonical form, or None for any other value."""
    if not isinstance(text, str) or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None
