"""Rule GPU020: a pod must not have annotations that gpu-admission sets."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_pod
from ..example import POD, Example, edited
from ..observed import SYSTEM_ANNOTATIONS
from ..pod_spec import Pod
from ..rule import Finding, Need, Rule, Subject
from ..signs import TENCENT_ANNOTATIONS
from ..twin import pods
from ..unknown import mapping


def _not_preassigned(pod: Pod, _: Subject, __: Context) -> Iterator[Finding]:
    for key in mapping(pod.metadata.get("annotations")):
        if key.startswith(SYSTEM_ANNOTATIONS):
            yield Finding(
                path=pod.under(f"metadata.annotations[{key}]"),
                found="an annotation that gpu-admission sets",
                wanted="none",
                cure="Remove it; it was probably copied from a running pod.",
            )


RULE = Rule(
    id="GPU020",
    title="A pod has no annotations that gpu-admission sets",
    severity=Severity.MANDATORY,
    check=each_pod(_not_preassigned),
    why="gpu-admission rejects a pod that already has its annotations: `had been predicated`. A "
    "copy of a running pod has them.",
    source="tkestack gpu-admission pkg/predicate/gpu_predicate.go",
    needs=frozenset({Need.GPU_MANAGER}),
)

TWIN = pods(
    'variables.annotations.filter(k, k.startsWith("tencent.com/predicate-") || '
    'k.startsWith("tencent.com/gpu-assigned")).map(k, "found annotation " + k)',
    signs=(TENCENT_ANNOTATIONS,),
)

EXAMPLE = Example.edited(
    edited(POD, ("32Gi, nvidia.com/gpu: 1", "32Gi, tencent.com/vcuda-core: 100")),
    (
        "metadata: {name: train}",
        'metadata:\n  name: train\n  annotations: {tencent.com/predicate-time: "1700000000"}',
    ),
    settings={"platform": "gpu-manager"},
)
