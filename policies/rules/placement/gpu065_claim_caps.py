"""Rule GPU065: a ResourceClaim must not request more GPUs than the configured maximum."""

from __future__ import annotations

from collections.abc import Iterator

from ..claims import CHOICES, MOST, OF_GPUS, devices_path, most_gpus
from ..context import Context, Severity
from ..example import Example
from ..rule import Finding, Need, Rule, Subject
from ..twin import Scope, Twin


def _capped(subject: Subject, context: Context) -> Iterator[Finding]:
    caps = (context.max_gpus_per_container, context.max_gpus_per_pod)
    cap = min((limit for limit in caps if limit is not None), default=MOST)
    total = most_gpus(subject, context)
    if total > cap:
        yield Finding(
            path=".".join((*devices_path(subject), "requests")),
            found=f"up to {total} GPUs in one claim",
            wanted=f"at most {cap}",
            cure="Lower count, so that all requests together fit, or raise the maximum in the "
            "settings.",
        )


RULE = Rule(
    id="GPU065",
    title="A claim requests no more GPUs than the configured maximum",
    severity=Severity.MANDATORY,
    check=_capped,
    why="Claims (DRA) are not part of the limits of containers, so GPU028 does not count them. "
    "All requests of a claim count together; of alternatives, the largest counts; "
    "allocationMode All counts as 32 devices, the most that one claim can have. A "
    "DeviceClass has GPUs if its name says so, or if resourceNames lists it.",
    source="k8s.io/api v0.34.4 resource/v1/types.go DeviceRequest, AllocationResultsMaxSize",
    needs=frozenset({Need.CAPS}),
)

_CAP = (
    '["maxGpusPerContainer", "maxGpusPerPod"].filter(k, k in variables.facts)'
    ".map(k, int(variables.facts[k])).min()"
)
_COUNT = f'(x.?allocationMode.orValue("") == "All" ? {MOST} : int(x.?count.orValue(1)))'
_TOTAL = (
    f"variables.requests.map(r, ([0] + {CHOICES}.filter(x, {OF_GPUS}).map(x, {_COUNT})).max())"
    ".sum()"
)

TWIN = Twin(
    f'("maxGpusPerContainer" in variables.facts || "maxGpusPerPod" in variables.facts) ? '
    f"({_TOTAL} > {_CAP} ? "
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
