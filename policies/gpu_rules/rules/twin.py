"""The twin of a rule: its CEL expression for admission policies, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .signs import Sign


class Scope(StrEnum):
    """The objects that the CEL twin of a rule checks.

    `PODS`: pods and the pod templates of all workload controllers. `VALUES`: ConfigMaps and
    Secrets. `CLAIMS`: ResourceClaims and their templates. `VOLUMES`: PersistentVolumes. `NODES`:
    the labels of nodes; a policy only warns about nodes and never denies the request.
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
    """A rule in CEL, for admission policies.

    Attributes:
        places: Expression of type list(string) over the variables of `gpu_rules.admission.shapes`.
            The list has a text for each place where the object breaks the rule.
        scopes: Objects that the rule checks.
        kinds: Kinds of pod templates that the rule checks; if empty, the rule checks all kinds
            and pods.
        ephemeral: Whether the rule also checks ephemeral containers that are added to a running
            pod.
        on_update: CEL that is true if an update of a pod changes what the rule reads; empty if no
            field that can be changed matters.
        signs: Simple tests that are true for every pod that can break the rule; required if the
            rule checks pods.
    """

    places: str
    scopes: frozenset[Scope] = frozenset({Scope.PODS})
    kinds: frozenset[str] = frozenset()
    ephemeral: bool = False
    on_update: str = ""
    signs: tuple[Sign, ...] | None = None

    @property
    def judges_pods(self) -> bool:
        """Return whether the rule checks pods themselves, and not only templates of some kinds."""
        return Scope.PODS in self.scopes and not self.kinds


@dataclass(frozen=True, slots=True)
class NoTwin:
    """The reason why a rule has no CEL twin.

    Attributes:
        reason: The reason, in one sentence.
        enforced: Whether the API server itself enforces the rule, before any policy runs.
    """

    reason: str
    enforced: bool = False


def pods(
    places: str,
    *kinds: str,
    ephemeral: bool = False,
    on_update: str = "",
    signs: tuple[Sign, ...] | None = None,
) -> Twin:
    """Return the twin of a rule about pods and pod templates.

    Args:
        places: Expression with a text for each place where the pod breaks the rule.
        *kinds: Kinds of pod templates that the rule checks; none means all, and pods too.
        ephemeral: Whether the rule also checks ephemeral containers.
        on_update: CEL that is true if an update of a pod changes what the rule reads.
        signs: Simple tests that are true for every pod that can break the rule.
    """
    return Twin(
        places, kinds=frozenset(kinds), ephemeral=ephemeral, on_update=on_update, signs=signs
    )


ENFORCED: Final = NoTwin(
    "The API server itself rejects it, in pods and in templates, before it evaluates policies.",
    enforced=True,
)
SEVERAL_OBJECTS: Final = NoTwin(
    "It compares several objects; a policy sees only the object that is created or changed."
)
NODES_JOIN: Final = NoTwin(
    "A node joins before anybody can label and taint it: a policy that rejects it would keep "
    "it out of the cluster."
)
CHART_VALUES: Final = NoTwin(
    "It checks the values of a Helm release; the API server sees only the rendered objects."
)
HOST_COMMANDS: Final = NoTwin("It checks commands on hosts, which the API server does not know.")
OTHER_KINDS: Final = NoTwin(
    "It checks objects of other programs; a policy for a kind that the cluster lacks can't be "
    "type-checked."
)
