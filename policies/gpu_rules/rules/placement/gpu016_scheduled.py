"""Rule GPU016: a pod that requests GPUs must not set nodeName, which bypasses the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import Example, pod
from ..gpus import gpus_of
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..rule import Finding, Rule, Subject
from ..signs import Sign
from ..twin import pods
from ..unknown import text


def _check_node_name(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    if text(pod.spec.get("nodeName")) and gpus_of(subject, context).may_have:
        yield Finding(
            path=pod.under("spec.nodeName"),
            found=f"a fixed node for a pod that requests {_first_gpu_resource(subject, context)}",
            wanted="no nodeName",
            cure="Use nodeSelector instead: only the scheduler counts the free GPUs.",
        )


def _first_gpu_resource(subject: Subject, context: Context) -> str:
    """Return the name of the first GPU resource of a pod; the amounts may all be unknown."""
    return next(iter(gpu_requests(subject, context)), "GPUs")


RULE = Rule(
    id="GPU016",
    title="The scheduler places a pod that requests GPUs",
    severity=Severity.MANDATORY,
    check=each_pod(_check_node_name),
    why="A pod with nodeName bypasses the scheduler, so nothing counts the free GPUs. If too "
    "few are free, the kubelet ends the pod with OutOfnvidia.com/gpu.",
    source="kubernetes v1.34.4 pkg/kubelet/lifecycle/predicate.go",
)

TWIN = pods(
    cel.unless_empty(
        'variables.spec.?nodeName.orValue("") != "" && variables.mayHaveGpus',
        '"found nodeName " + variables.spec.nodeName',
    ),
    signs=(Sign("has(object.spec.nodeName)"),),
)

EXAMPLE = Example.edited(
    pod('nodeSelector: {nvidia.com/gpu: "true"}'),
    ('nodeSelector: {nvidia.com/gpu: "true"}', "nodeName: gpu-1"),
)
