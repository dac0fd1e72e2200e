"""Which pools a pod can go to, and what it tolerates."""

from __future__ import annotations

from collections.abc import Iterable

from policies.rules.context import Context, Pool, Taint
from policies.rules.pod_spec import Pod
from policies.rules.unknown import UNKNOWN, at, holds_unknown, mapping, sequence

_HARD = frozenset({"NoSchedule", "NoExecute"})


def candidate_pools(pod: Pod, context: Context) -> tuple[Pool, ...]:
    """The pools with GPUs that the pod's node selector does not rule out.

    A node may carry more labels than the stack sets, so a pool is ruled out only by a label that
    the stack sets to another value.
    """
    selector = mapping(pod.spec.get("nodeSelector"))
    return tuple(
        pool
        for pool in context.pools
        if pool.gpus_per_node > 0
        and all(
            value is UNKNOWN or pool.labels.get(key, value) == value
            for key, value in selector.items()
        )
    )


def untolerated(pod: Pod, pool: Pool, resources: Iterable[str], context: Context) -> list[Taint]:
    """The taints of a pool that keep the pod away, none where that cannot be told.

    `resources`: the GPU resources that the pod asks for; with the ExtendedResourceToleration
    admission plugin each of them adds a toleration of its own name.
    """
    tolerations = pod.spec.get("tolerations")
    if holds_unknown(tolerations):
        return []
    added = set(resources) if context.extended_resource_toleration else set()
    return [
        taint
        for taint in pool.taints
        if taint.effect in _HARD
        and not (taint.key in added and taint.effect == "NoSchedule")
        and not any(tolerates(toleration, taint) for toleration in sequence(tolerations))
    ]


def tolerates(toleration: object, taint: Taint) -> bool:
    """Whether a toleration covers a taint; what is unknown in it counts as fitting.

    Source: k8s.io/api v0.34.4 core/v1/toleration.go ToleratesTaint.
    """
    effect, key = at(toleration, "effect"), at(toleration, "key")
    operator, value = at(toleration, "operator"), at(toleration, "value")
    if effect is not UNKNOWN and effect and effect != taint.effect:
        return False
    if key is not UNKNOWN and key and key != taint.key:
        return False
    if operator is UNKNOWN or operator == "Exists":
        return True
    if operator not in (None, "", "Equal"):
        return False
    return value is UNKNOWN or (value or "") == taint.value
