"""Rule GPU065: a ResourceClaim must not request more GPUs than the configured maximum."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..cel import CAP
from ..claims import (
    CHOICES,
    LEAST_CAP,
    MAY_BE_OF_GPUS,
    MOST,
    devices_path,
    least_cap,
    most_gpus,
)
from ..example import Example
from ..rule import Finding, Need, Rule, Subject
from ..twin import Scope, Twin


def _check_claim_cap(subject: Subject, context: Context) -> Iterator[Finding]:
    cap, total = least_cap(context), most_gpus(subject, context)
    if cap is not None and total > cap:
        yield Finding(
            path=".".join((*devices_path(subject), "requests")),
            found=f"up to {total} GPUs in one claim",
            wanted=f"at most {cap}",
            cure="Lower count, so that all requests together fit, or raise the maximum in the "
            "settings. If a DeviceClass has no GPUs, list it in otherClaims.",
        )


RULE = Rule(
    id="GPU065",
    title="A claim requests no more GPUs than the configured maximum",
    severity=Severity.MANDATORY,
    check=_check_claim_cap,
    why="Claims (DRA) are not part of the limits of containers, so GPU028 does not count them. "
    "All requests of a claim count together; of alternatives, the largest counts; "
    "allocationMode All counts as 32 devices, the most that one claim can have. Devices of "
    "each DeviceClass count, unless its name is that of other devices, such as nic.example.com, or "
    "otherClaims lists it.",
    source="k8s.io/api v0.34.4 resource/v1/types.go DeviceRequest, AllocationResultsMaxSize",
    needs=frozenset({Need.CAPS}),
)

_COUNT = (
    f'(x.?allocationMode.orValue("") == "All" ? {MOST} : [int(x.?count.orValue(1)), {CAP}].min())'
)
_MOST = f"([0] + {CHOICES}.filter(x, {MAY_BE_OF_GPUS}).map(x, {_COUNT})).max()"
_TOTAL = f"variables.requests.map(r, {_MOST}).sum()"

TWIN = Twin(
    f'("maxGpusPerContainer" in variables.facts || "maxGpusPerPod" in variables.facts) ? '
    f"({_TOTAL} > {LEAST_CAP} ? "
    f'["found up to " + string({_TOTAL}) + " GPUs in one claim"] : []) : []',
    scopes=frozenset({Scope.CLAIMS}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpus, namespace: team-a}
spec:
  spec:
    devices:
      requests:
        - name: gpus
          exactly: {deviceClassName: gpu.nvidia.com, count: 8}
""",
    ("count: 8", "count: 16"),
    settings={"maxGpusPerPod": 8},
)
