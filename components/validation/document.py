"""What the validation of a pool is asked for: plain documents from the configuration. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.nodes.pools import manager, members_document
from components.nodes.settings.pool import Pool
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster

Json = dict[str, Any]


def declared(cluster: Cluster, pool: Pool) -> str:
    """A digest of the settings that a node's validation stands for: its GPUs' way to containers."""
    parts = [
        pool.gpus_per_node,
        pool.model_dump(mode="json", include={"mig"}),
        cluster.registry.model_dump(mode="json"),
        cluster.validation.image,
        cluster.validation.command,
        cluster.driver.model_dump(mode="json"),
        cluster.runtime.model_dump(mode="json"),
        str(cluster.platform),
        cluster.device_plugin.model_dump(mode="json") if cluster.device_plugin else None,
        cluster.gpu_operator.model_dump(mode="json") if cluster.gpu_operator else None,
        cluster.gpu_manager.model_dump(mode="json"),
        cluster.dra.model_dump(mode="json", include={"version", "namespace"}),
        cluster.driver_installer.model_dump(mode="json"),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def validation_document(cluster: Cluster, pool: Pool, stack: str) -> Json:
    """Input of ``components.validation.validate`` for one pool, but for its ``pod``."""
    settings = declared(cluster, pool)
    hosts = {host.node: declared(cluster.of(host), pool) for host in cluster.hosts}
    names = set(pool.node_names()) if pool.nodes is not None else set(hosts)
    found = platform_of(cluster).offers(cluster, pool)
    return {
        **members_document(cluster, pool),
        "manager": manager(stack, pool),
        "gpus": pool.gpus_per_node,
        "resources": {each.resource: each.count for each in found},
        "devices": {each.resource: {"devices": each.devices, "unit": each.unit} for each in found},
        "namespace": cluster.validation.namespace,
        "timeoutSeconds": cluster.validation.timeout_seconds,
        "busy": str(cluster.validation.busy),
        "settings": settings,
        "own": {node: own for node, own in hosts.items() if node in names and own != settings},
        "spaces": _spaces(cluster),
    }


def _spaces(cluster: Cluster) -> list[str]:
    """Namespaces whose DaemonSets bring GPUs to containers."""
    found = {platform_of(cluster).namespace(cluster)}
    if cluster.driver.managed_by_daemonset:
        found.add(cluster.driver_installer.namespace)
    return sorted(found)
