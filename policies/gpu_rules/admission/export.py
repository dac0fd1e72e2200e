"""Export the GPU rules to an admission controller, with a list of what it can't check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..rules import RULES, TWINS, Context, Severity
from ..rules.twin import NoTwin, Scope
from . import gatekeeper, grants, kyverno, placing
from .manifests import Enforcement, manifests
from .objects import Bound, Json

_CLAIMS: Final = "resource.k8s.io/v1 alone: claims of older API versions reach it unconverted"
_NO_CLOCK: Final = (
    "Scans of stored objects don't see that an exemption has ended: CEL has no clock, and a scan "
    "has only the time at which the object was created."
)
_TEXTS: Final = (
    "Programs that judge files (kyverno apply, gator test) want quantities as an API server has "
    'them: as texts, such as nvidia.com/gpu: "1".'
)
_AUTHORIZER: Final = (
    f"{grants.NAME} and {placing.NAME} stay ValidatingAdmissionPolicies of the API server: only "
    "its CEL can ask whether a user may grant exemptions, bind pods or allocate devices."
)


@dataclass(frozen=True, slots=True)
class Target:
    """Something that enforces the exported rules.

    Attributes:
        title: What it is, with the version that the exports are tested with.
        render: Function that returns its objects for admission policies with their bindings.
        partly: What it doesn't judge of some objects as it is installed by default, by scope.
        notes: What differs for all rules.
    """

    title: str
    render: Callable[[Sequence[Bound]], list[Json]] | None = None
    partly: Mapping[Scope, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


TARGETS: Final[Mapping[str, Target]] = {
    "vap": Target("ValidatingAdmissionPolicies of the API server"),
    "kyverno": Target(
        "ValidatingPolicies of Kyverno (1.19.1)",
        kyverno.rendered,
        {Scope.NODES: "its resourceFilters leave Nodes out"},
        (
            _AUTHORIZER,
            _NO_CLOCK,
            _TEXTS,
            "Its resourceFilters leave out ReplicaSets, whose pods are judged, and the namespaces "
            "kube-system, kube-public and kube-node-lease.",
        ),
    ),
    "gatekeeper": Target(
        "ConstraintTemplates and Constraints of Gatekeeper (3.23.1)",
        gatekeeper.rendered,
        {
            Scope.NODES: "its webhook doesn't see nodes/status, by which kubelets set labels",
            Scope.NAMESPACES: "its webhook doesn't see namespaces/status and namespaces/finalize",
            Scope.CLAIMS: _CLAIMS,
        },
        (
            _AUTHORIZER,
            _NO_CLOCK,
            _TEXTS,
            "The webhook doesn't see pods/status, by which annotations of pods can be changed.",
            "gator gives CEL no namespace, so exemptions by annotation hold in the webhook only.",
            "CEL may cost a tenth of what the API server allows: a pod of 100 containers is "
            "judged, one of 200 is refused as not judged.",
            "Apply twice: a Constraint needs the kind that Gatekeeper makes from its template.",
        ),
    ),
}
"""What the rules can be exported to, by the name on the command line."""


def exported(target: str, context: Context, enforcement: Enforcement) -> list[Json]:
    """Return the objects that enforce the GPU rules in a target.

    Args:
        target: Key of `TARGETS`.
        context: Facts about the cluster, with the levels of the rules and the exemptions.
        enforcement: How a violation is acted on.
    """
    objects = manifests(context, enforcement)
    render = TARGETS[target].render
    if render is None:
        return objects
    policies = [Bound(*both) for both in zip(objects[::2], objects[1::2], strict=True)]
    native = [bound for bound in policies if bound.name in (grants.NAME, placing.NAME)]
    rendered = render([bound for bound in policies if bound not in native])
    return [
        *rendered,
        *(manifest for bound in native for manifest in (bound.policy, bound.binding)),
    ]


def left_out(context: Context) -> dict[str, str]:
    """Return the rules that no export has, by id, each with the reason."""
    result: dict[str, str] = {}
    for id_, rule in RULES.items():
        twin = TWINS[id_]
        unknown = [str(need) for need in rule.needs if not need.known(context)]
        if isinstance(twin, NoTwin):
            result[id_] = twin.reason
        elif rule.severity_in(context) is Severity.OFF:
            result[id_] = "The settings switch it off."
        elif unknown:
            result[id_] = f"The settings don't have what it needs: {', '.join(sorted(unknown))}."
    return result


def judged_partly(target: str, context: Context) -> dict[str, str]:
    """Return the exported rules that a target applies to some objects only, with the others."""
    partly, without = TARGETS[target].partly, left_out(context)
    result = {}
    for id_, twin in TWINS.items():
        if id_ in without or isinstance(twin, NoTwin):
            continue
        if scope_notes := [partly[scope] for scope in sorted(twin.scopes) if scope in partly]:
            result[id_] = "; ".join(scope_notes)
    return result


def summary(target: str, context: Context) -> list[str]:
    """Return lines that list the exported rules, the missing rules and the differences."""
    without, partly = left_out(context), judged_partly(target, context)
    judged = [id_ for id_ in RULES if id_ not in without]
    return [
        f"{len(judged)} of {len(RULES)} GPU rules as {TARGETS[target].title}.",
        f"Judged: {', '.join(judged)}.",
        *(f"Not judged: {id_}: {reason}" for id_, reason in without.items()),
        *(f"Judged in part: {id_}: {reason}." for id_, reason in partly.items()),
        *(f"Note: {note}" for note in TARGETS[target].notes),
    ]
