"""The claims for devices (DRA) of a pod, and which of them are for GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from . import cel
from .context import Context
from .pod_spec import Container
from .resource_names import SOUNDS_LIKE_GPU, sounds_like_gpu
from .rule import Subject
from .unknown import at, mapping, sequence, text

OTHER_DEVICES: Final = (
    "(^|[-.0-9])(channels?|cpus?|dpdk|dranet|fpgas?|hca|ib|imex|infiniband|memory|net|networks?|"
    "nics?|qat|rdma|roce|sriov|storage|tpus?|vfs?)([-.0-9]|$)"
)
"""Pattern of the names of claims for devices of other kinds. A claim for GPUs may not have such a
name, unless the name speaks of GPUs too (GPU077).
"""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod for devices.

    Attributes:
        name: Name of the claim within the pod.
        made_from: Name of the ResourceClaim or ResourceClaimTemplate; empty if not known.
        gpus: Number of GPUs by DeviceClass; empty if the claim's manifest or the cluster's settings
            show that it has none; None if nothing shows what it has.
        shared: Whether the claim takes no GPU for itself: it sees GPUs that others hold.
    """

    name: str
    made_from: str
    gpus: Mapping[str, int] | None = None
    shared: bool = False

    @property
    def sure(self) -> bool:
        """Return whether the claim's manifest or name says that the claim is for GPUs."""
        return bool(self.gpus) or (self.gpus is None and sounds_like_gpu(self.made_from))


def of_other_devices(name: str, context: Context) -> bool:
    """Return whether a claim or claim template is for devices other than GPUs, by its name."""
    return _named_other(name) or name in context.other_claims


def _named_other(name: str) -> bool:
    return re.search(OTHER_DEVICES, name) is not None and not sounds_like_gpu(name)


def of_other_devices_cel(name: str) -> str:
    """Return CEL that is true for the name of a claim for devices other than GPUs."""
    other = f"{name}.matches({cel.text(OTHER_DEVICES)})"
    return (
        f"({proven_other_cel(name)} || ({other} && !{name}.matches({cel.text(SOUNDS_LIKE_GPU)})))"
    )


def proven_other_cel(name: str) -> str:
    """Return CEL that is true for a claim's name that the settings list as one without GPUs."""
    listed = 'variables.facts[?"otherClaims"].orValue("").split(",").filter(x, x != "")'
    return f"({name} in {listed})"


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
        gpus = {} if made_from in context.other_claims else context.devices.claims.get(key)
        yield PodClaim(text(claim.get("name")), made_from, gpus, key in context.devices.shared)


def gpu_claims(subject: Subject, context: Context) -> Iterator[PodClaim]:
    """Yield the claims of a pod that are for GPUs, or may be.

    A claim that nothing shows counts as a claim for GPUs, unless its name speaks of other devices.
    """
    for claim in pod_claims(subject, context):
        if claim.gpus or (claim.gpus is None and not _named_other(claim.made_from)):
            yield claim


def uses(container: Container, claims: frozenset[str]) -> bool:
    """Return whether a container uses a claim with one of the given names in the pod's spec."""
    listed = sequence(at(container.spec, "resources", "claims"))
    return any(text(at(claim, "name")) in claims for claim in listed)
