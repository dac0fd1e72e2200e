"""Rule GPU013: a GPU quota must use the key `requests.<resource>`; other keys have no effect."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_object
from ..example import Example
from ..resource_names import is_gpu
from ..rule import Finding, Rule, Subject
from ..twin import Scope, Twin
from ..unknown import at, mapping

# HAMi itself reads these quota keys: pkg/device/quota.go.
_HAMI = frozenset({"limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"})


def _check_quota(subject: Subject, context: Context) -> Iterator[Finding]:
    for key in mapping(at(subject.manifest, "spec", "hard")):
        name = key.removeprefix("limits.")
        if key not in _HAMI and is_gpu(name, context):
            yield Finding(
                path=f"spec.hard[{key}]",
                found=f"{key}, which Kubernetes does not count",
                wanted=f"requests.{name}",
                cure="Add requests. in front of the resource's name.",
            )


RULE = Rule(
    id="GPU013",
    title="A quota for GPUs uses the key requests.<resource>",
    severity=Severity.MANDATORY,
    check=each_object(_check_quota, "ResourceQuota"),
    why="Kubernetes counts extended resources only under requests.<name>. The API server also "
    "accepts quotas on limits.nvidia.com/gpu and nvidia.com/gpu, but then limits nothing.",
    source="kubernetes v1.34.4 pkg/quota/v1/evaluator/core/pods.go "
    "isExtendedResourceNameForQuota; run on an API server 1.34.4",
)

_HAMI_CEL = cel.texts(("limits.nvidia.com/gpumem", "limits.nvidia.com/gpucores"))

TWIN = Twin(
    f"{cel.resources('object.spec', 'hard')}.filter(k, !(k in {_HAMI_CEL}) && "
    f'({cel.is_gpu("k")} || (k.startsWith("limits.") && {cel.is_gpu("k.substring(7)")})))'
    '.map(k, "found " + k + ", which Kubernetes does not count")',
    scopes=frozenset({Scope.RESOURCE_QUOTAS}),
)

EXAMPLE = Example.edited(
    """\
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus}
spec:
  hard: {requests.nvidia.com/gpu: 8}
""",
    ("hard: {requests.nvidia.com/gpu: 8}", "hard: {limits.nvidia.com/gpu: 8}"),
)
