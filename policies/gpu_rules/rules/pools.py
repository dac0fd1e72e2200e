"""Match pods to GPU node pools, by node selectors, affinity, taints and tolerations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..context import Context, PoolFacts
from ..kube import taints
from ..kube.node_selectors import OPERATORS, meets
from ..kube.taints import NodeTaint, TaintEffect
from .pod_spec import Pod
from .unknown import UNKNOWN, at, holds_unknown, mapping, sequence, text

_REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def gpu_pools(context: Context) -> tuple[PoolFacts, ...]:
    """Return the pools whose nodes have GPUs."""
    return tuple(pool for pool in context.pools if pool.gpus_per_node > 0)


def candidate_pools(pod: Pod, context: Context) -> tuple[PoolFacts, ...]:
    """Return the GPU pools that the pod's node selector and node affinity do not exclude.

    A node may have more labels than the stack sets, so a pool is excluded only by a label that the
    stack sets to another value.
    """
    selector = mapping(pod.spec.get("nodeSelector"))
    terms = at(pod.spec, *_REQUIRED, "nodeSelectorTerms")
    return tuple(
        pool
        for pool in gpu_pools(context)
        if all(
            value is UNKNOWN or pool.labels.get(key, value) == value
            for key, value in selector.items()
        )
        and (
            not sequence(terms)
            or any(_may_match_term(term, pool.labels) for term in sequence(terms))
        )
    )


def _may_match_term(term: object, labels: Mapping[str, str]) -> bool:
    """Return whether nodes with these labels, and perhaps more, may match a node selector term.

    A term without expressions matches no node: k8s.io/component-helpers v0.34.4
    scheduling/corev1/nodeaffinity/nodeaffinity.go.
    """
    expressions, fields = at(term, "matchExpressions"), at(term, "matchFields")
    if UNKNOWN in (term, expressions, fields):
        return True
    if not (sequence(expressions) or sequence(fields)):
        return False
    return all(_may_match_expression(requirement, labels) for requirement in sequence(expressions))


def _may_match_expression(expression: object, labels: Mapping[str, str]) -> bool:
    key, values = text(at(expression, "key")), at(expression, "values")
    if holds_unknown(values) or key not in labels:
        return True
    operator, expected = (
        text(at(expression, "operator")),
        [text(value) for value in sequence(values)],
    )
    return operator not in OPERATORS or meets(labels[key], operator, expected)


def untolerated(
    pod: Pod, pool: PoolFacts, resources: Iterable[str], context: Context
) -> list[NodeTaint]:
    """Return the taints of a pool that keep the pod away; empty if the tolerations are not known.

    Args:
        resources: GPU resources that the pod requests. If the API server runs the admission plugin
            ExtendedResourceToleration, each of them adds a toleration of the same name.
    """
    tolerations = pod.spec.get("tolerations")
    if holds_unknown(tolerations):
        return []
    added = [
        {"key": name, "operator": "Exists", "effect": TaintEffect.NO_SCHEDULE}
        for name in (resources if context.extended_resource_toleration else ())
    ]
    return [
        taint
        for taint in hard_taints(pool)
        if not taint.is_tolerated(added)
        and not any(tolerates(toleration, taint) for toleration in sequence(tolerations))
    ]


def reached(pod: Pod, context: Context) -> list[PoolFacts]:
    """Return the GPU pools with taints all of which the pod is known to tolerate."""
    known_tolerations = [
        toleration
        for toleration in sequence(pod.spec.get("tolerations"))
        if not holds_unknown(toleration)
    ]
    return [
        pool
        for pool in gpu_pools(context)
        if (hard := hard_taints(pool))
        and all(
            any(tolerates(toleration, taint) for toleration in known_tolerations) for taint in hard
        )
    ]


def hard_taints(pool: PoolFacts) -> list[NodeTaint]:
    """Return the taints of a pool that keep pods away (NoSchedule and NoExecute)."""
    return [taint for taint in pool.taints if taint.is_hard]


def tolerates(toleration: object, taint: NodeTaint) -> bool:
    """Return whether a toleration tolerates a taint; unknown fields count as matching."""
    matching = {
        "effect": taint.effect,
        "key": taint.key,
        "operator": "Exists",
        "value": taint.value,
    }
    fields = {name: at(toleration, name) for name in matching}
    return taints.tolerates(
        {name: matching[name] if value is UNKNOWN else value for name, value in fields.items()},
        taint,
    )
