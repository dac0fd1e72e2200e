"""Rule GPU004: a pod that requests GPUs must tolerate the taint of the GPU nodes."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from .. import cel
from ..each import each_pod
from ..example import POD, Example
from ..pod_request import gpu_requests, resource_requests
from ..pod_spec import Pod
from ..pools import candidate_pools, untolerated
from ..rule import Finding, Need, Rule, Subject
from ..signs import PLACED
from ..twin import pods


def _check_tolerations(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    pools = candidate_pools(pod, context)
    if not pools or not gpu_requests(subject, context):
        return
    resources = resource_requests(pod, context)
    missing = {pool.name: untolerated(pod, pool, resources, context) for pool in pools}
    if all(missing.values()):
        name, taints = next(iter(missing.items()))
        first = taints[0]
        yield Finding(
            path=pod.under("spec.tolerations"),
            found="no toleration for " + ", ".join(map(str, taints)) + f" of pool {name}",
            wanted="a toleration for the taints of a GPU pool",
            cure=f"Add {{key: {first.key}, operator: Exists, effect: {first.effect}}}.",
        )


RULE = Rule(
    id="GPU004",
    title="A pod that requests GPUs tolerates the taint of the GPU nodes",
    severity=Severity.MANDATORY,
    check=each_pod(_check_tolerations),
    why="GPU nodes are tainted to keep other workloads away. Without a toleration, the pod "
    "stays Pending. The admission plugin ExtendedResourceToleration adds one, but it is off "
    "by default, and it works only if the taint's key is the name of the resource.",
    source="k8s.io/api v0.34.4 core/v1/toleration.go; kubernetes v1.34.4 "
    "plugin/pkg/admission/extendedresourcetoleration",
    needs=frozenset({Need.POOLS}),
    whole=True,
    of_requests=True,
)

_OVERHEAD = cel.positive('variables.overhead[?n].orValue("0")')


def _added_cel() -> str:
    """Return CEL that is true if the API server adds a toleration of taint `t` to the pod.

    The API server does so if it runs the admission plugin ExtendedResourceToleration.
    """
    return (
        'variables.facts.extendedResourceToleration == "true" && t.endsWith(":NoSchedule") && '
        f'variables.containers.exists(c, {cel.LIMITS}.exists(n, t.startsWith(n + "=") && '
        f"{cel.is_gpu('n')} && ({cel.positive(f'{cel.LIMITS}[n]')} || {_OVERHEAD})))"
    )


_UNTOLERATED = f'{cel.POOL_TAINTS}.exists(t, t != "" && !{cel.TOLERATED} && !({_added_cel()}))'

TWIN = pods(
    cel.unless_empty(
        "variables.asksForGpus && size(variables.pools) > 0 && "
        f"variables.pools.all(p, {_UNTOLERATED})",
        '"found no toleration for " + variables.facts[variables.pools[0] + ".taints"] + '
        '" of pool " + variables.pools[0]',
    ),
    signs=PLACED,
)

EXAMPLE = Example.edited(
    POD,
    ("\n  tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]", ""),
)
