"""Explain why GPUs of a node are not usable, from the Node object alone. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes.causes.cause import Cause, Kind, shown
from gpu_cluster.nodes.causes.node_fit import cordoned
from gpu_rules.kube.taints import NodeTaint

PRESSURE = {
    "DiskPressure": "free space of the node's disks",
    "MemoryPressure": "end pods of the node, or give them less memory",
    "PIDPressure": "end pods of the node that start many processes",
}
"""Conditions under which a kubelet evicts pods, each with what ends it (Kubernetes documentation,
"Node-pressure Eviction").
"""
KUBERNETES = "node.kubernetes.io/"
"""Beginning of the keys of the taints that say what conditions and a cordon say."""
KUBELET = "see the node's kubelet: `systemctl status kubelet`, `journalctl -u kubelet`"


def causes_of_node(node: Json) -> Iterator[Cause]:
    """Yield why a node gets no pods or evicts them: its conditions, its cordon, taints of people.

    Args:
        node: The Node object.
    """
    for condition in node.get("status", {}).get("conditions") or []:
        kind, status = str(condition.get("type")), condition.get("status")
        words = shown(condition.get("message") or condition.get("reason"))
        if kind == "Ready" and status != "True":
            yield Cause(kind=Kind.NODE, text=f"is not ready: {words}", cure=KUBELET)
        elif kind in PRESSURE and status == "True":
            yield Cause(kind=Kind.NODE, text=f"has {kind}: {words}", cure=PRESSURE[kind])
        elif kind == "NetworkUnavailable" and status == "True":
            yield Cause(
                kind=Kind.NODE,
                text=f"has no network for pods: {words}",
                cure="see the pods of the network add-on on the node",
            )
    if node["spec"].get("unschedulable"):
        yield cordoned(node)


def taint_causes(node: Json, declared: Collection[str]) -> Iterator[Cause]:
    """Yield the taints that keep pods off a node, but for those of Kubernetes and of the stack.

    Args:
        node: The Node object.
        declared: Taints that the stack file declares for the node, as text.
    """
    for taint in map(NodeTaint.of, node["spec"].get("taints") or []):
        if taint.is_hard and not taint.key.startswith(KUBERNETES) and str(taint) not in declared:
            yield Cause(
                kind=Kind.TAINT,
                text=f"has the taint {shown(taint)}, which the stack file does not declare",
                cure="remove the taint, or add a toleration of it to pods",
            )
