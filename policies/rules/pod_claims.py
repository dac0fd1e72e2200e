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
from .unknown import UNKNOWN, at, mapping, sequence, text

OTHER_DEVICES: Final = (
    "(^|[-.0-9])(channels?|cpus?|dpdk|dranet|fpgas?|hca|ib|imex|infiniband|memory|net|networks?|"
    "nics?|qat|rdma|roce|sriov|storage|tpus?|vfs?)([-.0-9]|$)"
)
"""Pattern of the names of claims for devices of other kinds. A claim for GPUs may not have such a
name, unless the name speaks of GPUs too (GPU077).
"""


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod for GPUs.

    Attributes:
        name: Name of the claim within the pod.
        made_from: Name of the ResourceClaim or ResourceClaimTemplate; empty if not known.
        gpus: Number of GPUs by DeviceClass, or None if the claim's own manifest is not known.
        shared: Whether the claim takes no GPU for itself: it sees GPUs that others hold.
    """

    name: str
    made_from: str
    gpus: Mapping[str, int] | None = None
    shared: bool = False

    @property
    def sure(self) -> bool:
        """Return whether the claim's manifest or name proves that the claim is for GPUs."""
        return self.gpus is not None or sounds_like_gpu(self.made_from)


def of_other_devices(name: str, context: Context) -> bool:
    """Return whether a claim or claim template is for devices other than GPUs, by its name."""
    other = re.search(OTHER_DEVICES, name) is not None and not sounds_like_gpu(name)
    return other or name in context.other_claims


def of_other_devices_cel(name: str) -> str:
    """Return CEL that is true for the name of a claim for devices other than GPUs."""
    other = f"{name}.matches({cel.text(OTHER_DEVICES)})"
    return (
        f'({name} in variables.facts[?"otherClaims"].orValue("").split(",").filter(x, x != "") || '
        f"({other} && !{name}.matches({cel.text(SOUNDS_LIKE_GPU)})))"
    )


def gpu_claims(subject: Subject, context: Context) -> Iterator[PodClaim]:
    """Yield the claims of a pod that are for GPUs, or may be.

    A pod only references a ResourceClaim or ResourceClaimTemplate. If that object is in the same
    stack, its devices are known. Otherwise the claim counts as a claim for GPUs, unless its name or
    the cluster's settings show that it is for other devices.
    """
    claims = sequence(subject.pod.spec.get("resourceClaims")) if subject.pod else ()
    for raw in claims:
        # Until Kubernetes 1.30, the names of claim and template were fields of `source`.
        claim = {**mapping(at(raw, "source")), **mapping(raw)}
        name = text(claim.get("name"))
        for kind, field in (
            ("ResourceClaimTemplate", "resourceClaimTemplateName"),
            ("ResourceClaim", "resourceClaimName"),
        ):
            if (given := claim.get(field)) is not None:
                made_from = "" if given is UNKNOWN else text(given)
                key = (subject.namespace, kind, made_from)
                gpus = context.devices.claims.get(key)
                known = gpus is not None
                if gpus or (not known and not of_other_devices(made_from, context)):
                    yield PodClaim(name, made_from, gpus, key in context.devices.shared)
                break


def uses(container: Container, claims: frozenset[str]) -> bool:
    """Return whether a container uses a claim with one of the given names in the pod's spec."""
    listed = sequence(at(container.spec, "resources", "claims"))
    return any(text(at(claim, "name")) in claims for claim in listed)
