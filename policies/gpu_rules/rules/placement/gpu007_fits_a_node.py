"""Rule GPU007: a pod must not request more GPUs than one node has."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.quantity import show
from .. import cel
from ..each import each_pod
from ..example import Example, pod_of_several_gpus
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..pools import candidate_pools
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods
from .room import each_resource_cel, per_node, sizes_cel


def _fits_a_node(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    pools = candidate_pools(pod, context)
    for name, amount in gpu_requests(subject, context).items():
        sizes = {pool.name: per_node(pool, name, context) for pool in pools}
        known_sizes = {pool: size for pool, size in sizes.items() if size is not None}
        if not known_sizes:
            continue
        largest = max(known_sizes, key=lambda pool: known_sizes[pool])
        if amount > known_sizes[largest]:
            yield Finding(
                path=pod.under("spec"),
                found=f"{show(amount)} {name} in one pod",
                wanted=f"at most {known_sizes[largest]}, the amount of a node in pool {largest}",
                cure="Use several pods: a pod runs on one node.",
            )


RULE = Rule(
    id="GPU007",
    title="A pod requests no more GPUs than a node has",
    severity=Severity.MANDATORY,
    check=each_pod(_fits_a_node),
    why="A pod runs on one node, so a pod that requests more GPUs than any node has stays "
    "Pending forever. The request is counted as the scheduler counts it: containers and "
    "sidecars together, or the largest init container with the sidecars started before it, "
    "plus overhead.",
    source="k8s.io/component-helpers v0.34.4 resource/helpers.go PodRequests",
    needs=frozenset({Need.POOLS}),
)


def _more_than_a_node_cel(key: str, name: str) -> str:
    asks = f"variables.{key}Request"
    return (
        "("
        + cel.unless_empty(
            f"{asks} > 0 && size({sizes_cel(key)}) > 0 && {asks} > {sizes_cel(key)}.max()",
            f'"found " + string({asks}) + " {name} in one pod; wanted: at most " + '
            f"string({sizes_cel(key)}.max())",
        )
        + ")"
    )


TWIN = pods(each_resource_cel(_more_than_a_node_cel), on_update=cel.PLACE_CHANGED, signs=PLACED)

EXAMPLE = Example.edited(
    pod_of_several_gpus("nvidia.com/gpu: 8"),
    ("nvidia.com/gpu: 8", "nvidia.com/gpu: 9"),
)
