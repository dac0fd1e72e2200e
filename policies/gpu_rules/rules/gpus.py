"""Decide whether a pod has GPUs, has none, or may have some. In Python and as CEL."""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from ..context import Context
from . import cel
from .pod_claims import pod_claims
from .pod_request import is_request, requests_gpu_resources, requests_gpus
from .pod_spec import Pod
from .resource_names import NETWORK, may_be_gpu
from .rule import Subject
from .unknown import UNKNOWN, holds_unknown, sequence


class Gpus(Enum):
    """Whether a pod has GPUs.

    `WITH`: it requests a GPU resource, or a claim (DRA) whose manifest is known and requests GPUs.
    `WITHOUT`: it requests nothing that may be a GPU. `UNKNOWN`: a claim that nobody shows, or a
    resource whose name resembles that of a GPU, may give it GPUs or may not; names prove nothing,
    because the pod's author chooses them. `LATER`: a preview doesn't know yet what the pod
    requests; the run and the API server check it again.
    """

    WITH = auto()
    WITHOUT = auto()
    UNKNOWN = auto()
    LATER = auto()

    @property
    def may_have(self) -> bool:
        """Return whether rules that forbid something to pods with GPUs apply."""
        return self in (Gpus.WITH, Gpus.UNKNOWN)

    @property
    def may_lack(self) -> bool:
        """Return whether rules that forbid something to pods without GPUs apply."""
        return self in (Gpus.WITHOUT, Gpus.UNKNOWN)


def gpus_of(subject: Subject, context: Context) -> Gpus:
    """Return whether a pod has GPUs; an amount that is not known, or is invalid, counts as GPUs.

    An object of the state `UNKNOWN` must follow the rules of both sides, so that no object can
    escape the rules of one side by what the other side does not count.
    """
    pod = subject.pod
    if pod is None:
        return Gpus.WITHOUT
    claims = list(pod_claims(subject, context))
    if requests_gpu_resources(pod, context) or any(
        claim.facts is not None and claim.facts.sure for claim in claims
    ):
        return Gpus.WITH
    if _known_later(pod):
        return Gpus.LATER
    if any(claim.facts is None or claim.facts.most for claim in claims) or _sounding_names(
        pod, context
    ):
        return Gpus.UNKNOWN
    return Gpus.WITHOUT


def belongs_on_gpu_nodes(subject: Subject, context: Context) -> bool:
    """Return whether a pod may need GPU nodes, so that it may tolerate their taint.

    That is the case if GPU004 requires the toleration, or if a resource has the name of a GPU that
    no rule knows.
    """
    pod = subject.pod
    return pod is not None and (
        requests_gpus(subject, context)
        or any(re.search(NETWORK, name) is None for name in _sounding_names(pod, context))
        or gpus_of(subject, context) is Gpus.LATER
    )


def _known_later(pod: Pod) -> bool:
    claims = pod.spec.get("resourceClaims")
    return (
        claims is UNKNOWN
        or any(claim is UNKNOWN or holds_unknown(claim) for claim in sequence(claims))
        or any(
            not (container.requests_known and container.limits_known)
            for container in pod.resource_containers
        )
    )


def _sounding_names(pod: Pod, context: Context) -> list[str]:
    """Return the requested resources that may be GPUs, in lower case."""
    return [
        name.lower()
        for container in pod.resource_containers
        for name in container.resource_names
        if may_be_gpu(name, context)
        and (resource := container.effective(name)) is not None
        and is_request(resource)
    ]


_SOUNDS = cel.may_be_gpu("n")
_UNPROVEN = f"!{cel.listed_as_other(cel.claim_name('r'))}"
_OVERHEAD = (
    f"variables.containers.exists(c, {cel.limits('c')}.exists(n, {cel.is_gpu('n')} && "
    + cel.positive('variables.overhead[?n].orValue("0")')
    + "))"
)
_NO_NETWORK = f"!n.lowerAscii().matches({cel.text(NETWORK)})"

GPUS_VARIABLES: Final = {
    "hasGpus": f"variables.containers.exists(c, {cel.asks_for(cel.is_gpu('n'))}) || {_OVERHEAD}",
    "mayHaveGpus": "variables.hasGpus || "
    f"variables.spec.?resourceClaims{cel.OR_LIST}.exists(r, {_UNPROVEN}) || "
    f"variables.containers.exists(c, {cel.asks_for(_SOUNDS)})",
    "asksForGpus": "variables.hasGpus || size(variables.gpuClaims) > 0",
    "belongsOnGpuNodes": "variables.asksForGpus || "
    f"variables.containers.exists(c, {cel.asks_for(f'{_SOUNDS} && {_NO_NETWORK}')})",
}
"""CEL variables for the same questions. CEL can't read a claim, which is another object."""
