"""What the cluster side is asked to do for each pool: plain documents, from the configuration.

The same documents are the input of the operations and of the look at the cluster, so that what is
declared, what is done and what is checked can't differ.
"""

from __future__ import annotations

from typing import Any

import config

Json = dict[str, Any]

#: Seconds that an operation gets beyond its own waiting, for requests.
SLACK = 120


def manager(stack: str, pool: config.Pool) -> str:
    """Field manager of a pool's labels: fixed, so that every later run owns the same fields."""
    return f"gpu-cluster-{stack}-{pool.name}"


def _members(cluster: config.Cluster, pool: config.Pool) -> Json:
    members: Json = {"context": cluster.kubernetes.context, "pool": pool.name}
    if pool.nodes is not None:
        return {**members, "nodes": list(pool.node_names())}
    return {**members, "selector": dict(pool.selector or {}), "count": pool.size}


def labels(cluster: config.Cluster, pool: config.Pool) -> dict[str, str]:
    """Labels of a pool's nodes.

    Beside the declared ones ``nvidia.com/gpu.present=true`` under ``device-plugin``: the chart's
    default affinity asks for it where no Node Feature Discovery sets the PCI label
    (nvidia-device-plugin 0.20.0, values.yaml ``affinity``). The operator sets it itself.
    """
    declared = dict(pool.labels)
    if pool.gpus_per_node and cluster.platform is config.Platform.DEVICE_PLUGIN:
        declared.setdefault("nvidia.com/gpu.present", "true")
    return declared


def taints(pool: config.Pool) -> list[dict[str, str]]:
    """Taints of a pool's nodes as the API server writes them: no key with an empty value."""
    return [
        {
            "key": taint.key,
            **({"value": taint.value} if taint.value else {}),
            "effect": str(taint.effect),
        }
        for taint in pool.taints
    ]


def tolerations(pools: tuple[config.Pool, ...]) -> list[dict[str, str]]:
    """One toleration for each taint of the pools, without repeats, in a stable order."""
    found = {
        (taint["key"], taint.get("value", ""), taint["effect"])
        for pool in pools
        for taint in taints(pool)
    }
    return [
        {"key": key, "operator": "Equal", "value": value, "effect": effect}
        if value
        else {"key": key, "operator": "Exists", "effect": effect}
        for key, value, effect in sorted(found)
    ]


def gpu_pools(cluster: config.Cluster) -> tuple[config.Pool, ...]:
    """Pools whose nodes have GPUs."""
    return tuple(pool for pool in cluster.pools if pool.gpus_per_node)


def scheduling_document(cluster: config.Cluster, pool: config.Pool, stack: str) -> Json:
    """Input of ``operations.scheduling`` for one pool."""
    return {
        **_members(cluster, pool),
        "manager": manager(stack, pool),
        "labels": labels(cluster, pool),
        "taints": taints(pool),
    }


def job_name(pool: config.Pool) -> str:
    """Name of a pool's validation Job."""
    return f"validate-{pool.name}"


def validation_document(cluster: config.Cluster, pool: config.Pool, stack: str) -> Json:
    """Input of ``operations.validation`` for one pool."""
    return {
        **_members(cluster, pool),
        "manager": manager(stack, pool),
        "gpus": pool.gpus_per_node,
        "namespace": cluster.validation.namespace,
        "job": job_name(pool),
        "timeoutSeconds": cluster.validation.timeout_seconds,
    }
