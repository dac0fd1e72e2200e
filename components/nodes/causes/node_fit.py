"""Check whether a pod may be scheduled to a node, apart from resources. Pure functions.

Source: k8s.io/component-helpers v0.34.4 scheduling/corev1 (nodeaffinity, tolerations).
"""

from __future__ import annotations

from components.kubernetes.api import Json
from components.nodes.causes.cause import Cause, Kind
from policies.kube.taints import NodeTaint
from policies.printable import printable

AWAY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes whose kubelet does not answer or is not ready."""
NAME = 120
"""Maximum number of characters of a name, label or taint in a message."""


def barred(pod: Json, node: Json) -> Cause | None:
    """Return why a pod can't be scheduled to a node, apart from free resources; None if it can."""
    tolerations = pod["spec"].get("tolerations")
    if node["spec"].get("unschedulable") and not _CORDON.is_tolerated(tolerations):
        return Cause(kind=Kind.CORDON, text="is cordoned", cure="uncordon the node")
    if not _is_selected(pod, node):
        return Cause(
            kind=Kind.AFFINITY,
            text="does not match the pod's node selector or affinity",
            cure="correct the pod's nodeSelector or node affinity, or label the node",
        )
    taints = map(NodeTaint.of, node["spec"].get("taints") or [])
    hard = (taint for taint in taints if taint.is_hard)
    taint = next((taint for taint in hard if not taint.is_tolerated(tolerations)), None)
    if taint is None:
        return None
    if taint.key in AWAY:
        cure = "see the node's kubelet and its conditions"
        return Cause(kind=Kind.TAINT, text="is not ready", cure=cure)
    name = printable(str(taint), NAME)
    return Cause(
        kind=Kind.TAINT,
        text=f"has the taint {name}, which the pod does not tolerate",
        cure=f"add a toleration of {name} to the pod, or remove the taint",
    )


_CORDON = NodeTaint("node.kubernetes.io/unschedulable")


def _is_selected(pod: Json, node: Json) -> bool:
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms")
    return terms is None or any(_matches(term, node) for term in terms)


def _matches(term: Json, node: Json) -> bool:
    """Return whether a node matches a node selector term; a term without expressions never does."""
    labels = node["metadata"].get("labels") or {}
    fields = {"metadata.name": node["metadata"]["name"]}
    expressions = term.get("matchExpressions") or []
    of_fields = term.get("matchFields") or []
    return bool(expressions or of_fields) and all(
        _holds(each, values)
        for listed, values in ((expressions, labels), (of_fields, fields))
        for each in listed
    )


def _holds(expression: Json, values: Json) -> bool:
    key, wanted = str(expression.get("key")), expression.get("values") or []
    match expression.get("operator"):
        case "In":
            return values.get(key) in wanted
        case "NotIn":
            return values.get(key) not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt" | "Lt" as operator:
            try:
                have, bound = int(values[key]), int(wanted[0])
            except (KeyError, IndexError, TypeError, ValueError):
                return False
            return have > bound if operator == "Gt" else have < bound
    return False
