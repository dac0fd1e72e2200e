"""Rule GPU034: the node selector and affinity of a GPU pod must match a pool with GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, pod
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..pools import candidate_pools, gpu_pools
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from ..unknown import mapping


def _check_reachable(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if not gpu_pools(context) or not gpu_requests(subject, context):
        return
    if candidate_pools(pod, context):
        return
    selected = mapping(pod.spec.get("nodeSelector"))
    yield Finding(
        path=pod.under("spec.nodeSelector" if selected else "spec.affinity"),
        found="labels that no GPU pool has",
        wanted="labels of " + " or ".join(pool.name for pool in gpu_pools(context)[:4]),
        cure="Select a label that the nodes of a GPU pool have, or no label.",
    )


RULE = Rule(
    id="GPU034",
    title="A pod that requests GPUs selects nodes that have GPUs",
    severity=Severity.MANDATORY,
    check=each_pod(_check_reachable),
    why="If nodeSelector, or every term of the required node affinity, needs a label that has "
    "another value on all GPU pools of the stack, the pod stays Pending.",
    source="k8s.io/component-helpers v0.34.4 scheduling/corev1/nodeaffinity/nodeaffinity.go",
    needs=frozenset({Need.POOLS}),
)

TWIN = pods(
    cel.unless_empty(
        "size(variables.gpuPools) > 0 && variables.asksForGpus && size(variables.pools) == 0",
        '"found labels that no GPU pool has"',
    ),
    on_update=cel.PLACE_CHANGED,
    signs=PLACED,
)

EXAMPLE = Example.edited(
    pod("nodeSelector: {tier: train}"),
    ("tier: train", "tier: serve"),
    settings={
        "pools": [
            {
                "name": "a100",
                "gpusPerNode": 8,
                "taints": ["nvidia.com/gpu:NoSchedule"],
                "labels": {"tier": "train"},
            }
        ]
    },
)
