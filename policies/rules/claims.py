"""Device requests of Dynamic Resource Allocation (DRA), in ResourceClaims and their templates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from . import cel
from .context import Context
from .resource_names import SOUNDS_LIKE_GPU, sounds_like_gpu
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

CHANNELS: Final = r"imex\.nvidia\.com|compute-domain-[a-z-]+\.nvidia\.com"
"""Pattern of the DeviceClasses of NVIDIA's DRA driver that have no GPUs, but channels between
nodes: NVIDIA/k8s-dra-driver-gpu deployments/helm/nvidia-dra-driver-gpu/templates.
"""
CHOICES: Final = f"(has(r.exactly) ? [r.exactly] : r.?firstAvailable{cel.OR_LIST})"
"""CEL for the alternatives of the request `r` of a claim."""
OF_GPUS: Final = (
    f'((x.?deviceClassName.orValue("").matches({cel.text(SOUNDS_LIKE_GPU)}) && '
    f'!x.?deviceClassName.orValue("").matches({cel.text(f"^({CHANNELS})$")})) || '
    f'x.?deviceClassName.orValue("") in {cel.parameter("resourceNames")})'
)
"""CEL that is true if the alternative `x` of a request is for GPUs."""


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
        where, request = f"{place}[{index}]", mapping(raw)
        if "exactly" in request:
            yield _request(f"{where}.exactly", index, request["exactly"])
        elif "firstAvailable" in request:
            for choice, one in enumerate(sequence(request["firstAvailable"])):
                yield _request(f"{where}.firstAvailable[{choice}]", index, one)
        # In API version v1beta1, a request has its fields directly, without `exactly`.
        else:
            yield _request(where, index, request)
    # Until Kubernetes 1.30, a claim named one class and no number of devices.
    above = path[:-1]
    if name := text(at(subject.manifest, *above, _CLASS_BEFORE_REQUESTS)):
        yield _request(".".join(above), 0, {"deviceClassName": name})


def _request(path: str, index: int, raw: object) -> DeviceRequest:
    count = at(raw, "count")
    # The API server makes 1 of a missing count and of 0. A count that is not known counts as 0.
    given = 1 if count in (None, 0) else number(count) or 0
    every = at(raw, "allocationMode") == "All"
    return DeviceRequest(
        path=path,
        index=index,
        device_class=text(at(raw, "deviceClassName")),
        count=MOST if every else given,
        admin_access=at(raw, "adminAccess") is True,
        raw=mapping(raw),
    )


def least_by_class(subject: Subject) -> dict[str, int]:
    """Return how many devices of each DeviceClass a claim gets, at least.

    A request with allocationMode All counts as one device. Of a request with alternatives, only the
    first alternative counts.
    """
    least: Counter[str] = Counter()
    seen: set[int] = set()
    for request in requests(subject):
        if request.index not in seen:
            seen.add(request.index)
            every = request.raw.get("allocationMode") == "All"
            least[request.device_class] += 1 if every else request.count
    return dict(least)


def most_gpus(subject: Subject, context: Context) -> int:
    """Return the maximum number of GPUs that a claim can get, of all classes together."""
    by_request: Counter[int] = Counter()
    for request in requests(subject):
        if of_gpus(request.device_class, context):
            by_request[request.index] = max(by_request[request.index], request.count)
    return by_request.total()


def of_gpus(name: str, context: Context) -> bool:
    """Return whether a DeviceClass has GPUs.

    A DeviceClass has GPUs if its name resembles a GPU, if its manifest selects GPUs, or if the
    cluster's settings list its name. NVIDIA's classes of channels between nodes have none.
    """
    named = sounds_like_gpu(name) and not of_channels(name)
    return named or name in context.resource_names or name in context.devices.classes


def of_channels(name: str) -> bool:
    """Return whether a DeviceClass has channels between nodes (IMEX, compute domains), not GPUs."""
    return re.fullmatch(CHANNELS, name) is not None
