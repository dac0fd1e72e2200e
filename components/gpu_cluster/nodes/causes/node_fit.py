"""Check whether a pod may be scheduled to a node, apart from resources. Pure functions."""

from __future__ import annotations

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.kubernetes.resources import AT_REST, UPGRADE
from gpu_cluster.nodes.causes.cause import Cause, Kind
from gpu_rules.kube.node_selectors import is_node_selected
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.printable import printable

AWAY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of nodes whose kubelet does not answer or is not ready."""
NAME = 120
"""Maximum number of characters of a name, label or taint in a message."""


def barred(pod: Json, node: Json) -> Cause | None:
    """Return why a pod can't be scheduled to a node, apart from free resources; None if it can."""
    tolerations = pod["spec"].get("tolerations")
    if node["spec"].get("unschedulable") and not _CORDON.is_tolerated(tolerations):
        return cordoned(node)
    if not is_node_selected(pod["spec"], node):
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


def cordoned(node: Json) -> Cause:
    """Return a text that says that a node is cordoned, and who uncordons it."""
    state = str((node["metadata"].get("labels") or {}).get(UPGRADE) or "")
    if state in AT_REST:
        return Cause(kind=Kind.CORDON, text="is cordoned", cure="uncordon the node")
    return Cause(
        kind=Kind.CORDON,
        text=f"is cordoned by the GPU Operator ({UPGRADE}={printable(state, NAME)})",
        cure="see the driver's pod on the node: the operator uncordons the node once the upgrade "
        "of its driver has ended",
    )


_CORDON = NodeTaint("node.kubernetes.io/unschedulable")
