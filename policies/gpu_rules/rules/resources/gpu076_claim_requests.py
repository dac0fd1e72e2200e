"""Rule GPU076: the requests of a claim must be ones that the API server accepts."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..claims import DeviceRequest, devices_path, is_claim, requests
from ..example import Example
from ..rule import Finding, Rule, Subject
from ..twin import ENFORCED
from ..unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

_CURE = "Correct it: the API server refuses the claim."
_MODES = ("ExactCount", "All")
_V1 = "resource.k8s.io/v1"


def _check_requests(subject: Subject, _: Context) -> Iterator[Finding]:
    if not is_claim(subject):
        return
    names: set[str] = set()
    path = devices_path(subject)
    for index, raw in enumerate(sequence(at(subject.manifest, *path, "requests"))):
        place = f"{'.'.join(path)}.requests[{index}]"
        request = mapping(raw)
        if raw is UNKNOWN or holds_unknown(raw):
            continue
        name = text(request.get("name"))
        if not name or name in names:
            found = f"the name {name[:80]} twice" if name else "a request without a name"
            yield Finding(f"{place}.name", found, "a name of its own", _CURE)
        names.add(name)
        ways = [way for way in ("exactly", "firstAvailable") if request.get(way)]
        if len(ways) > 1 or (not ways and subject.group_version == _V1):
            found = " and ".join(ways) or "no devices"
            yield Finding(place, found, "one of exactly and firstAvailable", _CURE)
    for one in requests(subject):
        yield from _check_count(one, subject.group_version == _V1)


def _check_count(request: DeviceRequest, complete: bool) -> Iterator[Finding]:
    mode, count = request.raw.get("allocationMode"), request.raw.get("count")
    name = request.raw.get("deviceClassName")
    if complete and request.raw and name is not UNKNOWN and not text(name):
        yield Finding(f"{request.path}.deviceClassName", "none", "a DeviceClass", _CURE)
    if mode is not UNKNOWN and mode not in (None, "", *_MODES):
        yield Finding(f"{request.path}.allocationMode", text(mode)[:80], " or ".join(_MODES), _CURE)
    if isinstance(count, int | float) and not isinstance(count, bool):
        if count < 0:
            yield Finding(f"{request.path}.count", "less than 0", "1 or more", _CURE)
        elif count and mode == "All":
            found = "a number beside allocationMode All"
            yield Finding(f"{request.path}.count", found, "no count", _CURE)


RULE = Rule(
    id="GPU076",
    title="The API server accepts the requests of each claim",
    severity=Severity.MANDATORY,
    check=_check_requests,
    why="Each request of a claim needs a unique name. It names its devices once, either exactly "
    "or as alternatives, by a DeviceClass and a positive count or allocationMode All.",
    source="kubernetes v1.36.3 pkg/apis/resource/validation/validation.go validateDeviceRequest, "
    "validateDeviceAllocationMode",
    whole=True,
)

TWIN = ENFORCED

EXAMPLE = Example.edited(
    """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpus, namespace: team-a}
spec:
  devices:
    requests:
      - name: gpus
        exactly: {deviceClassName: gpu.nvidia.com, count: 2}
""",
    ("gpu.nvidia.com, count", "gpu.nvidia.com, allocationMode: All, count"),
)
