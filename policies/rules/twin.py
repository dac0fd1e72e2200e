"""What a rule is at admission: a CEL expression, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .signs import Sign


class Scope(StrEnum):
    """The objects that a twin judges.

    `PODS`: pods and the templates of all workload controllers. `VALUES`: ConfigMaps and Secrets.
    `CLAIMS`: ResourceClaims and their templates. `VOLUMES`: PersistentVolumes. `NODES`: the labels
    of nodes, which are never refused.
    """

    PODS = "pods"
    LIMIT_RANGES = "limitranges"
    RESOURCE_QUOTAS = "resourcequotas"
    VALUES = "values"
    NAMESPACES = "namespaces"
    CLAIMS = "claims"
    VOLUMES = "volumes"
    NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Twin:
    """A rule in CEL.

    `places`: an expression of type list(string), over the variables of `policies.admission.shapes`,
    with a text for each place where the object breaks the rule; an empty list where it breaks
    none. `scopes`: which objects. `kinds`: within `PODS`, the kinds that the rule is about; empty:
    all. `ephemeral`: the rule is also about ephemeral containers, which are added to running pods.
    `on_update`: CEL that is true where an update of a pod changes what the rule reads; empty where
    nothing that can be changed matters. `signs`: of pods; needed by every twin that
    judges pods.
    """

    places: str
    scopes: frozenset[Scope] = frozenset({Scope.PODS})
    kinds: frozenset[str] = frozenset()
    ephemeral: bool = False
    on_update: str = ""
    signs: tuple[Sign, ...] | None = None

    @property
    def judges_pods(self) -> bool:
        """Whether it judges pods themselves, not the templates of some kinds alone."""
        return Scope.PODS in self.scopes and not self.kinds


@dataclass(frozen=True, slots=True)
class NoTwin:
    """A rule without a twin. `enforced`: the API server itself enforces it, before any policy."""

    reason: str
    enforced: bool = False


def pods(
    places: str,
    *kinds: str,
    ephemeral: bool = False,
    on_update: str = "",
    signs: tuple[Sign, ...] | None = None,
) -> Twin:
    """The twin of a rule about pods and templates, or those of some kinds only."""
    return Twin(
        places, kinds=frozenset(kinds), ephemeral=ephemeral, on_update=on_update, signs=signs
    )


ENFORCED: Final = NoTwin(
    "The API server itself refuses it, in pods and in templates, before any policy is asked.",
    enforced=True,
)
SEVERAL_OBJECTS: Final = NoTwin(
    "It compares several objects; a policy sees the object alone that is created or changed."
)
NODES_JOIN: Final = NoTwin(
    "A node joins before anybody can label and taint it: a refusal would keep it out of the "
    "cluster for good."
)
CHART_VALUES: Final = NoTwin(
    "It judges the values of a Helm release; the API server sees the objects made from them."
)
HOST_COMMANDS: Final = NoTwin("It judges commands on hosts, of which the API server knows nothing.")
