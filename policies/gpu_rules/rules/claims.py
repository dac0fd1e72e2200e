"""Device requests of Dynamic Resource Allocation (DRA), in ResourceClaims and their templates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ..context import ClaimFacts, Context
from . import cel
from .resource_names import may_be_of_gpus, of_gpus
from .rule import Subject
from .unknown import at, mapping, number, sequence, text

GROUP: Final = "resource.k8s.io"
OF_A_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
"""Suffix of a ResourceQuota's key for devices of a DeviceClass: kubernetes v1.34.4
pkg/quota/v1/evaluator/core.
"""
MOST: Final = 32
"""Maximum number of devices in one claim: k8s.io/api v0.34.4 resource/v1
AllocationResultsMaxSize.
"""

_SPEC: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec", "spec"),
}
KINDS: Final = frozenset(_SPEC)
_CLASS_BEFORE_REQUESTS: Final = "resourceClassName"

CHOICES: Final = f"(has(r.exactly) ? [r.exactly] : r.?firstAvailable{cel.OR_LIST})"
"""CEL for the alternatives of the request `r` of a claim."""
_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of the claims that a controller makes from the templates of pods, under names that
begin with the pod's: kubernetes v1.34.4 pkg/controller/resourceclaim/controller.go.
"""
_CLAIM_CONTROLLERS: Final = (
    "system:serviceaccount:kube-system:resource-claim-controller",
    "system:kube-controller-manager",
)
"""Users that make such claims: kubernetes v1.34.4 cmd/kube-controller-manager/app/core.go, with a
service account for each controller, and without.
"""
IS_GENERATED: Final = (
    f'(request.?userInfo.?username.orValue("") in {cel.texts(_CLAIM_CONTROLLERS)} && '
    f"{cel.text(_POD_CLAIM)} in variables.ownAnnotations)"
)
"""CEL that is true if a controller makes the claim from the template of a pod."""
OF_GPUS: Final = cel.of_gpus('x.?deviceClassName.orValue("")')
"""CEL that is true if the alternative `x` of a request is for GPUs."""
MAY_BE_OF_GPUS: Final = cel.may_be_of_gpus('x.?deviceClassName.orValue("")')
"""CEL that is true if the alternative `x` of a request may be for GPUs."""
LEAST_CAP: Final = (
    '["maxGpusPerContainer", "maxGpusPerPod"].filter(k, k in variables.facts)'
    ".map(k, int(variables.facts[k])).min()"
)
"""CEL for the maximum number of GPUs of one claim; a cap must be known."""


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One device request of a claim, or one of its alternatives.

    Attributes:
        path: Path of the request in the manifest.
        index: Index of the request in the claim; alternatives have the same index.
        device_class: Name of the DeviceClass.
        count: Maximum number of devices. For allocationMode All, the maximum that a claim can have.
        admin_access: Whether the request may get devices that other claims already have.
        raw: The request as plain data.
    """

    path: str
    index: int
    device_class: str
    count: int
    admin_access: bool
    raw: Mapping[str, object]


def is_claim(subject: Subject) -> bool:
    """Return whether an object is a ResourceClaim or a ResourceClaimTemplate."""
    return subject.kind in KINDS and subject.group_version.partition("/")[0] == GROUP


def is_generated(subject: Subject, context: Context) -> bool:
    """Return whether a controller has made the claim from the template of a pod.

    Everybody can write the annotation into a manifest. So it counts only in objects that the user
    declares as read from a cluster.
    """
    return context.observed and _POD_CLAIM in subject.annotations


def devices_path(subject: Subject) -> tuple[str, ...]:
    """Return the path of `devices` in a claim or claim template."""
    return (*_SPEC[subject.kind], "devices")


def requests(subject: Subject) -> Iterator[DeviceRequest]:
    """Yield the device requests of a claim.

    If a request lists alternatives, each alternative is yielded.
    """
    if not is_claim(subject):
        return
    path = devices_path(subject)
    place = ".".join((*path, "requests"))
    for index, raw in enumerate(sequence(at(subject.manifest, *path, "requests"))):
        request_path, request = f"{place}[{index}]", mapping(raw)
        if "exactly" in request:
            yield _device_request(f"{request_path}.exactly", index, request["exactly"])
        elif "firstAvailable" in request:
            for choice, alternative in enumerate(sequence(request["firstAvailable"])):
                yield _device_request(
                    f"{request_path}.firstAvailable[{choice}]", index, alternative
                )
        # In API version v1beta1, a request has its fields directly, without `exactly`.
        else:
            yield _device_request(request_path, index, request)
    # Until Kubernetes 1.30, a claim named one class and no number of devices.
    above = path[:-1]
    if name := text(at(subject.manifest, *above, _CLASS_BEFORE_REQUESTS)):
        yield _device_request(".".join(above), 0, {"deviceClassName": name})


def _device_request(path: str, index: int, raw: object) -> DeviceRequest:
    count = at(raw, "count")
    # The API server makes 1 of a missing count and of 0. A count that is not known counts as 0.
    counted = 1 if count in (None, 0) else number(count) or 0
    takes_all = at(raw, "allocationMode") == "All"
    return DeviceRequest(
        path=path,
        index=index,
        device_class=text(at(raw, "deviceClassName")),
        count=MOST if takes_all else counted,
        admin_access=at(raw, "adminAccess") is True,
        raw=mapping(raw),
    )


def claim_facts(subject: Subject, context: Context) -> ClaimFacts:
    """Return the number of GPUs that a claim gets."""
    by_request: dict[int, list[DeviceRequest]] = {}
    for request in requests(subject):
        by_request.setdefault(request.index, []).append(request)
    gpus: Counter[str] = Counter()
    for first, *_ in by_request.values():
        if of_gpus(first.device_class, context):
            # With allocationMode All, a claim gets one device at least.
            takes_all = first.raw.get("allocationMode") == "All"
            gpus[first.device_class] += 1 if takes_all else first.count
    return ClaimFacts(
        gpus=dict(gpus),
        most=most_gpus(subject, context),
        sure=any(
            all(of_gpus(choice.device_class, context) for choice in choices)
            for choices in by_request.values()
        ),
    )


def most_gpus(subject: Subject, context: Context) -> int:
    """Return the maximum number of devices that a claim can get and that may be GPUs.

    Of a request with alternatives, the largest counts.
    """
    by_request: Counter[int] = Counter()
    for request in requests(subject):
        if may_be_of_gpus(request.device_class, context):
            by_request[request.index] = max(by_request[request.index], request.count)
    return by_request.total()


def least_cap(context: Context) -> int | None:
    """Return the maximum number of GPUs of one claim, which is the least of the caps."""
    caps = (context.max_gpus_per_container, context.max_gpus_per_pod)
    return min((cap for cap in caps if cap is not None), default=None)
