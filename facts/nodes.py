"""What is known of nodes: their pool, what we hold on them, how many GPUs they offer."""

from __future__ import annotations

from .api import ClusterError, Json

GPU = "nvidia.com/gpu"
SIMULATED = "kwok.x-k8s.io/node"
CORDONED = "gpu-cluster/cordoned"
"""Annotation of a node that this program cordoned for a reboot."""


def pool_members(nodes: list[Json], pool: Json) -> list[Json]:
    """The nodes of a pool, by name or by selector, in the order in which the pool names them.

    Args:
        nodes: Node objects of the API server.
        pool: ``pool``, ``nodes`` (names) or ``selector`` (labels) with ``count``.

    Raises:
        ClusterError: a named node is not in the cluster, or a selector finds another number of
            nodes than ``count``. All missing nodes are named.
    """
    by_name = {node["metadata"]["name"]: node for node in nodes}
    if pool.get("nodes") is not None:
        missing = [name for name in pool["nodes"] if name not in by_name]
        if missing:
            raise ClusterError(
                "\n".join(
                    f"pool {pool['pool']}: node {name}: found no such node in the cluster "
                    f"({len(nodes)} nodes); wanted: a node that has joined; cure: join it, or take "
                    "it out of the pool"
                    for name in missing
                )
            )
        return [by_name[name] for name in pool["nodes"]]
    selector: dict[str, str] = pool["selector"]
    members = [
        node
        for node in nodes
        if all(node["metadata"].get("labels", {}).get(k) == v for k, v in selector.items())
    ]
    if len(members) != pool["count"]:
        text = ",".join(f"{key}={value}" for key, value in selector.items())
        raise ClusterError(
            f"pool {pool['pool']}: selector {text}: found {len(members)} nodes; wanted: the "
            f"{pool['count']} that `count` declares; cure: label the nodes, or change `count`"
        )
    return sorted(members, key=lambda node: str(node["metadata"]["name"]))


def managed_by(node: Json, manager: str) -> bool:
    """Whether a field manager holds something of the node by server-side apply."""
    return any(
        entry["manager"] == manager and entry["operation"] == "Apply"
        for entry in node["metadata"].get("managedFields", [])
    )


def gpus(node: Json, kind: str = "allocatable", resource: str = GPU) -> int:
    """GPUs in a node's ``capacity`` or ``allocatable``; 0 where the resource is absent."""
    return int(node.get("status", {}).get(kind, {}).get(resource, "0"))


def simulated(node: Json) -> bool:
    """Whether kwok plays the node (annotation ``kwok.x-k8s.io/node``, kwok 0.7 documentation)."""
    return SIMULATED in node["metadata"].get("annotations", {})
