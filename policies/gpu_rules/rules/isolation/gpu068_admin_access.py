"""Rule GPU068: a ResourceClaim must not request adminAccess to devices of other claims."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..claims import requests
from ..example import Example
from ..rule import Declared, Finding, Rule, Subject
from ..twin import Scope, Twin


def _no_admin_access(subject: Subject, context: Context) -> Iterator[Finding]:
    if not subject.is_workload(context):
        return
    for request in requests(subject):
        if request.admin_access:
            yield Finding(
                path=f"{request.path}.adminAccess",
                found="true",
                wanted="false, the default",
                cure="Remove it: with it, a claim gets devices of other claims, and no quota "
                "counts them.",
            )


RULE = Rule(
    id="GPU068",
    title="A claim requests no devices that other claims already have",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    check=_no_admin_access,
    why="adminAccess gives a claim (DRA) devices that are already allocated to other claims, "
    "for monitoring. Kubernetes only requires the label resource.kubernetes.io/admin-access "
    "on the namespace, which everybody who may label the namespace can set.",
    source="k8s.io/api v0.34.4 resource/v1/types.go ExactDeviceRequest.adminAccess",
)

TWIN = Twin(
    cel.in_workloads(
        "variables.requests.filter(r, r.?exactly.?adminAccess.orValue(false))"
        '.map(r, "found adminAccess in request " + r.name)'
    ),
    scopes=frozenset({Scope.CLAIMS}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu, namespace: team-b}
spec:
  devices:
    requests:
      - name: gpu
        exactly: {deviceClassName: gpu.nvidia.com}
""",
    ("deviceClassName: gpu.nvidia.com", "deviceClassName: gpu.nvidia.com, adminAccess: true"),
)
