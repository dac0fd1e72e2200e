"""Claims for devices (DRA): what a ResourceClaim or a template of one asks for."""

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
"""Ends the key of a quota on devices: kubernetes v1.34.4 pkg/quota/v1/evaluator/core."""
MOST: Final = 32
"""Devices that one claim can hold: k8s.io/api v0.34.4 resource/v1 AllocationResultsMaxSize."""

_SPEC: Final[Mapping[str, tuple[str, ...]]] = {
    "ResourceClaim": ("spec",),
    "ResourceClaimTemplate": ("spec", "spec"),
}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim.

    `count`: devices at most, all of a node as many as a claim holds. `admin_access`: devices that
    others hold, too.
    """

    path: str
    device_class: str
    count: int
    admin_access: bool = False


def requests(subject: Subject) -> Iterator[DeviceRequest]:
    """The requests of a claim, with each alternative of those that name several."""
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
        else:  # of v1beta1
            yield _request(where, request)


def _request(path: str, raw: object) -> DeviceRequest:
    count = at(raw, "count")
    given = 1 if count is None else number(count) or 0  # what is not known counts as none
    every = at(raw, "allocationMode") == "All"
    admin = at(raw, "adminAccess") is True
    return DeviceRequest(path, text(at(raw, "deviceClassName")), MOST if every else given, admin)


def of_gpus(request: DeviceRequest, context: Context) -> bool:
    """Whether a request's class is one of GPUs, by its name or by the cluster's settings."""
    name = request.device_class
    return sounds_like_gpu(name) or name in context.resource_names
