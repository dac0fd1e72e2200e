"""What a rule is at admission: a CEL expression, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """The objects that a twin judges.

    `PODS`: pods and the templates of all workload controllers.
    """

    PODS = "pods"
    LIMIT_RANGES = "limitranges"
    RESOURCE_QUOTAS = "resourcequotas"


@dataclass(frozen=True, slots=True)
class Twin:
    """A rule in CEL.

    `places`: an expression of type list(string), over the variables of `policies.admission.shapes`,
    with a text for each place where the object breaks the rule; an empty list where it breaks
    none. `kinds`: within `PODS`, the kinds that the rule is about; empty: all. `ephemeral`: the
    rule is also about ephemeral containers, which are added to running pods.
    """

    scope: Scope
    places: str
    kinds: frozenset[str] = frozenset()
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class NoTwin:
    """A rule without a twin. `enforced`: the API server itself enforces it, before any policy."""

    reason: str
    enforced: bool = False
