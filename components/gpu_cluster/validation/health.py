"""Count the GPUs of nodes that pods can use now. Pure functions.

Health is a scale of its own: a node can be configured as declared and have lost GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes import record
from gpu_cluster.nodes.inspect import advertised, gpus, simulated

NEW = "not set up by a run yet"
"""Why GPUs of a node that no run has validated are not usable: they are due, not missing."""


@dataclass(frozen=True, kw_only=True)
class NodeHealth:
    """The GPUs of a node.

    Attributes:
        declared: Number of GPUs that the stack file declares.
        usable: Number of these GPUs that are allocatable, on a node that is ready.
        lost: Number of GPUs that were usable after the node's last validation and are not now.
        why: Why GPUs are not usable. Empty: all are.
        simulated: Whether the node, and so each of its GPUs, is simulated.
    """

    node: str
    declared: int
    usable: int
    lost: int = 0
    why: str = ""
    simulated: bool = False


def health(node: Json, pool: PoolValidation, *, is_edited: bool) -> NodeHealth:
    """Return how many of a node's declared GPUs are usable.

    If GPUs are shared or partitioned, a GPU counts as usable in the proportion in which its
    resources are allocatable, rounded down. After an edit of the stack file the node still offers
    what the last run declared, so the proportion is that of the node's own capacity.

    Args:
        pool: The node's pool; GPUs that the stack file takes out are not declared in it.
        is_edited: Whether the stack file was edited since the node's last validation.
    """
    validation = record.decode(node)
    before = validation.declared if validation else 0
    declared = before if validation and is_edited else pool.gpus
    expected = pool.resources
    if validation and is_edited:
        expected = {name: gpus(node, "capacity", name) for name in advertised(node)}
    usable, present = (
        _count_advertised_gpus(node, declared, expected, kind)
        for kind in ("allocatable", "capacity")
    )
    reason = "not advertised" if present < declared else "unhealthy or withdrawn"
    if validation is None and present < declared:
        reason = NEW
    if not is_ready(node):
        usable, reason = 0, "on a node that is not ready"
    return NodeHealth(
        node=str(node["metadata"]["name"]),
        declared=declared,
        usable=usable,
        lost=max(0, min(before, declared) - usable),
        why=reason if usable < declared else "",
        simulated=simulated(node),
    )


def is_ready(node: Json) -> bool:
    """Return whether no condition says that the node's kubelet is not ready."""
    conditions = node.get("status", {}).get("conditions") or []
    return all(
        condition.get("status") == "True"
        for condition in conditions
        if condition.get("type") == "Ready"
    )


def _count_advertised_gpus(
    node: Json, declared: int, resources: Mapping[str, int], kind: str
) -> int:
    """Return the number of declared GPUs of which all wanted resources are advertised."""
    counts = [
        declared * gpus(node, kind, name) // count for name, count in resources.items() if count
    ]
    return min(declared, *counts) if counts else 0
