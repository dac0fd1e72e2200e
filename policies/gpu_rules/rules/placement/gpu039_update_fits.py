"""Rule GPU039: the update of a GPU Deployment must not need more GPUs than its pools have."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...kube.quantity import show
from .. import cel
from ..each import each_pod
from ..example import Example, deployment
from ..pod_request import gpu_requests
from ..pod_spec import Pod
from ..pools import candidate_pools
from ..replicas import fenceposts
from ..rule import Finding, Need, Rule, Subject
from ..twin import pods
from .room import each_resource_cel, room_of, sizes_cel


def _surge_fits(pod: Pod, subject: Subject, context: Context) -> Iterator[Finding]:
    posts = fenceposts(subject)
    if posts is None or posts.unavailable > 0:
        return
    pools = candidate_pools(pod, context)
    for name, amount in gpu_requests(subject, context).items():
        room = room_of(pools, name, context)
        needed = amount * (posts.replicas + posts.surge)
        if room is not None and amount * posts.replicas <= room < needed:
            yield Finding(
                path="spec.strategy",
                found=f"an update that needs {show(needed)} {name} at the same time",
                wanted=f"at most {room}, the total of the pools",
                cure="Set type Recreate or rollingUpdate.maxSurge 0: otherwise the update hangs.",
            )


RULE = Rule(
    id="GPU039",
    title="The update of a GPU Deployment fits into its pools",
    severity=Severity.MANDATORY,
    check=each_pod(_surge_fits),
    why="With maxUnavailable 0 (the default of 25 % is 0 below four replicas), new pods start "
    "before old pods end. If the pools have no room for both, the update never ends.",
    source="kubernetes v1.34.4 pkg/controller/deployment/rolling.go, util/deployment_util.go "
    "ResolveFenceposts",
    needs=frozenset({Need.POOLS}),
    whole=True,
)


def _update_has_no_room_cel(key: str, name: str) -> str:
    asks, room = f"variables.{key}Request", sizes_cel(f"{key}.all")
    during = f"{asks} * (variables.replicas + variables.surge)"
    return (
        "("
        + cel.unless_empty(
            f"variables.surges && {asks} > 0 && size(variables.pools) > 0 && "
            f"size({room}) == size(variables.pools) && "
            f"{asks} * variables.replicas <= {room}.sum() && {room}.sum() < {during}",
            f'"found an update that needs " + string({during}) + " {name}; wanted: at most " + '
            f"string({room}.sum())",
        )
        + ")"
    )


TWIN = pods(each_resource_cel(_update_has_no_room_cel), "Deployment")

EXAMPLE = Example.edited(
    deployment("replicas: 8", "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}"),
    ("maxSurge: 0, maxUnavailable: 1", "maxSurge: 1, maxUnavailable: 0"),
    settings={
        "pools": [
            {"name": "a100", "gpusPerNode": 8, "nodes": 1, "taints": ["nvidia.com/gpu:NoSchedule"]}
        ]
    },
)
