"""Device requests of Dynamic Resource Allocation (DRA), in ResourceClaims and their templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .context import Context
from .replicas import number
from .resource_names import sounds_like_gpu
from .rule import Subject
from .unknown import at, mapping, sequence, text

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


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One device request of a claim.

    Attributes:
        path: Path of the request in the manifest.
        device_class: Name of the DeviceClass.
        count: Maximum number of devices. For allocationMode All, the maximum that a claim can have.
        admin_access: Whether the request may get devices that other claims already have.
    """

    path: str
    device_class: str
    count: int
    admin_access: bool = False


def requests(subject: Subject) -> Iterator[DeviceRequest]:
    """Yield the device requests of a claim.

    If a request lists alternatives, each alternative is yielded.
    """
    path = _SPEC.get(subject.kind)
    if path is None or subject.group_version.partition("/")[0] != GROUP:
        return
    place = ".".join((*path, "devices.requests"))
    for index, raw in enumerate(sequence(at(subject.manifest, *path, "devices", "requests"))):
        where, request = f"{place}[{index}]", mapping(raw)
        if "exactly" in request:
            yield _request(f"{where}.exactly", request["exactly"])
        elif "firstAvailable" in request:
            for choice, one in enumerate(sequence(request["firstAvailable"])):
                yield _request(f"{where}.firstAvailable[{choice}]", one)
        # A request of API version v1beta1.
        else:
            yield _request(where, request)


def _request(path: str, raw: object) -> DeviceRequest:
    count = at(raw, "count")
    # A count that is not known counts as 0.
    given = 1 if count is None else number(count) or 0
    every = at(raw, "allocationMode") == "All"
    admin = at(raw, "adminAccess") is True
    return DeviceRequest(path, text(at(raw, "deviceClassName")), MOST if every else given, admin)


def of_gpus(request: DeviceRequest, context: Context) -> bool:
    """Return whether a request's DeviceClass has GPUs, by its name or by the cluster's settings."""
    name = request.device_class
    return sounds_like_gpu(name) or name in context.resource_names
