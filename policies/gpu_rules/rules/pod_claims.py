"""The claims for devices (DRA) of a pod, and which of them are for GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..context import ClaimFacts, Context
from . import cel
from .pod_spec import Container
from .resource_names import names_other_devices, sounds_like_gpu
from .rule import Subject
from .unknown import at, mapping, sequence, text


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod for devices.

    Attributes:
        name: Name of the claim within the pod.
        made_from: Name of the ResourceClaim or ResourceClaimTemplate; empty if not known.
        facts: The GPUs of the claim; None if neither a manifest nor the settings show them.
        shared: Whether the claim takes no GPU for itself: it sees GPUs that others hold.
    """

    name: str
    made_from: str
    facts: ClaimFacts | None = None
    shared: bool = False

    @property
    def sure(self) -> bool:
        """Return whether the claim's manifest or name says that the claim is for GPUs."""
        return sounds_like_gpu(self.made_from) if self.facts is None else self.facts.sure


def of_other_devices(name: str, context: Context) -> bool:
    """Return whether a claim or claim template is for devices other than GPUs, by its name."""
    return names_other_devices(name) or name in context.other_claims


def of_other_devices_cel(name: str) -> str:
    """Return CEL that is true for the name of a claim for devices other than GPUs."""
    return f"({cel.listed_as_other(name)} || {cel.names_other_devices(name)})"


def pod_claims(subject: Subject, context: Context) -> Iterator[PodClaim]:
    """Yield the claims of a pod.

    A pod only references a ResourceClaim or ResourceClaimTemplate. If that object is in the same
    stack, its devices are known.
    """
    claims = sequence(subject.pod.spec.get("resourceClaims")) if subject.pod else ()
    for raw in claims:
        # Until Kubernetes 1.30, the names of claim and template were fields of `source`.
        claim = {**mapping(at(raw, "source")), **mapping(raw)}
        kind, field = "ResourceClaimTemplate", "resourceClaimTemplateName"
        if claim.get(field) is None:
            kind, field = "ResourceClaim", "resourceClaimName"
        made_from = text(claim.get(field))
        key = (subject.namespace, kind, made_from)
        listed = made_from in context.other_claims
        facts = ClaimFacts() if listed else context.devices.claims.get(key)
        yield PodClaim(text(claim.get("name")), made_from, facts, key in context.devices.shared)


def gpu_claims(subject: Subject, context: Context) -> Iterator[PodClaim]:
    """Yield the claims of a pod that are for GPUs, or may be.

    A claim that nothing shows counts as a claim for GPUs, unless its name speaks of other devices.
    """
    for claim in pod_claims(subject, context):
        is_for_others = names_other_devices(claim.made_from)
        if not is_for_others if claim.facts is None else claim.facts.most > 0:
            yield claim


def uses(container: Container, claims: frozenset[str]) -> bool:
    """Return whether a container uses a claim with one of the given names in the pod's spec."""
    listed = sequence(at(container.spec, "resources", "claims"))
    return any(text(at(claim, "name")) in claims for claim in listed)
