"""Rule GPU065: a ResourceClaim must not request more GPUs than the configured maximum."""

from __future__ import annotations

from collections.abc import Iterator

from .. import cel
from ..claims import MOST, of_gpus, requests
from ..context import Context, Severity
from ..example import Example
from ..resource_names import SOUNDS_LIKE_GPU
from ..rule import Finding, Need, Rule, Subject
from ..twin import Scope, Twin


def _capped(subject: Subject, context: Context) -> Iterator[Finding]:
    caps = (context.max_gpus_per_container, context.max_gpus_per_pod)
    cap = min((limit for limit in caps if limit is not None), default=MOST)
    for request in requests(subject):
        if request.count > cap and of_gpus(request, context):
            yield Finding(
                path=request.path,
                found=f"up to {request.count} devices of {request.device_class[:80]}",
                wanted=f"at most {cap}",
                cure="Ask for fewer by count, or have the cap raised.",
            )


RULE = Rule(
    id="GPU065",
    title="A claim for GPUs stays under the cap",
    severity=Severity.MANDATORY,
    check=_capped,
    why="Claims (DRA) go past the limits of containers, and so past GPU028. allocationMode All "
    f"counts as {MOST} devices, as many as one claim can hold. A class is one of GPUs where its "
    "name says so, or where resourceNames names it.",
    source="k8s.io/api v0.34.4 resource/v1/types.go DeviceRequest, AllocationResultsMaxSize",
    needs=frozenset({Need.CAPS}),
)

_CAP = (
    '["maxGpusPerContainer", "maxGpusPerPod"].filter(k, k in variables.facts)'
    ".map(k, int(variables.facts[k])).min()"
)
_COUNT = f'(x.?allocationMode.orValue("") == "All" ? {MOST} : int(x.?count.orValue(1)))'
_OF_GPUS = (
    f'(x.?deviceClassName.orValue("").matches({cel.text(SOUNDS_LIKE_GPU)}) || '
    f'x.?deviceClassName.orValue("") in {cel.parameter("resourceNames")})'
)

_CHOICES = "(has(r.exactly) ? [r.exactly] : r.?firstAvailable.orValue([]))"

TWIN = Twin(
    f'("maxGpusPerContainer" in variables.facts || "maxGpusPerPod" in variables.facts) ? '
    f"variables.requests.filter(r, {_CHOICES}.exists(x, {_COUNT} > {_CAP} && {_OF_GPUS}))"
    '.map(r, "found too many devices in request " + r.name) : []',
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
