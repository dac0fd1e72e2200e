"""What a rule is at admission: a CEL expression, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """The objects that a twin judges.

    `PODS`: pods and the templates of all workload controllers. `VALUES`: ConfigMaps and Secrets.
    """

    PODS = "pods"
    LIMIT_RANGES = "limitranges"
    RESOURCE_QUOTAS = "resourcequotas"
    VALUES = "values"
    NAMESPACES = "namespaces"


@dataclass(frozen=True, slots=True)
class Twin:
    """A rule in CEL.

    `places`: an expression of type list(string), over the variables of `policies.admission.shapes`,
    with a text for each place where the object breaks the rule; an empty list where it breaks
    none. `scopes`: which objects. `kinds`: within `PODS`, the kinds that the rule is about; empty:
    all. `ephemeral`: the rule is also about ephemeral containers, which are added to running pods.
    """

    places: str
    scopes: frozenset[Scope] = frozenset({Scope.PODS})
    kinds: frozenset[str] = frozenset()
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class NoTwin:
    """A rule without a twin. `enforced`: the API server itself enforces it, before any policy."""

    reason: str
    enforced: bool = False


def pods(places: str, *kinds: str, ephemeral: bool = False) -> Twin:
    """The twin of a rule about pods and templates, or those of some kinds only."""
    return Twin(places, kinds=frozenset(kinds), ephemeral=ephemeral)
