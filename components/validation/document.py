"""What the validation of a pool is asked for: plain documents from the configuration. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from components.nodes.pools import (
    manager,
    members_document,
    validated_pools,
)
from components.nodes.settings.pool import Pool
from components.platforms.registry import named, platform_of
from components.platforms.tolerations import tolerations
from components.settings.cluster import Cluster
from components.validation.pod import pod_spec

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
    offers = platform_of(cluster).offers(pool)
    return {
        **members_document(cluster, pool),
        "manager": manager(stack, pool),
        "gpus": pool.gpus_per_node,
        "resources": {offer.resource: offer.count for offer in offers},
        "devices": {
            offer.resource: {"devices": offer.devices, "unit": offer.unit} for offer in offers
        },
        "namespace": cluster.validation.namespace,
        "timeoutSeconds": cluster.validation.timeout_seconds,
        "busy": str(cluster.validation.busy),
        "settings": settings,
        "own": {node: own for node, own in hosts.items() if node in names and own != settings},
        "spaces": _spaces(cluster),
        **_reached(cluster, pool),
    }


def _reached(cluster: Cluster, pool: Pool) -> Json:
    """How the hosts of a pool's nodes are reached for their kernel's log; nothing without any."""
    names = set(pool.node_names())
    keys = {"name", "node", "role", "address", "port", "user", "host_key", "bastion"}
    hosts = {
        host.node: host.model_dump(mode="json", include=keys)
        for host in cluster.working_hosts
        if pool.nodes is None or host.node in names
    }
    return {"hosts": hosts} if hosts else {}


def measure_document(cluster: Cluster, stack: str, runtime_class: str | None) -> Json:
    """Input of ``components.validation.measure``."""
    validation = cluster.validation
    return {
        "context": cluster.kubernetes.context,
        "namespace": validation.namespace,
        "busy": str(validation.busy),
        "tests": [_test(cluster, name, runtime_class) for name in validation.tests],
        "pools": [
            {
                **{key: document[key] for key in _MEMBERS if key in document},
                "tolerations": tolerations((pool,), cluster.scheduling.node_taints),
                "whole": is_whole(document),
            }
            for pool in validated_pools(cluster)
            for document in [validation_document(cluster, pool, stack)]
        ],
    }


_MEMBERS = (
    "pool", "nodes", "selector", "count", "maintenance", "gpus", "resources", "devices",
    "namespace",
)  # fmt: skip


def is_whole(document: Json) -> bool:
    """Whether each device that a pool offers is a whole GPU, of one container alone."""
    return len(document["devices"]) == 1 and all(
        offer["devices"] == document["gpus"]
        and document["resources"][name] == offer["devices"] * offer["unit"]
        for name, offer in document["devices"].items()
    )


def claim_of(cluster: Cluster, gpus: int) -> Json | None:
    """What a test with so many GPUs claims; None where it asks for a resource."""
    space = cluster.validation.namespace
    return named(cluster.platform).claim(f"test-{gpus}", space, gpus)


def _test(cluster: Cluster, name: str, runtime_class: str | None) -> Json:
    test = cluster.validation.tests[name]
    claim = claim_of(cluster, test.gpus)
    return {
        "name": name,
        "image": cluster.registry.deployed(test.image),
        "command": list(test.command),
        "gpus": test.gpus,
        "pattern": test.pattern,
        "minimum": test.minimum,
        "memory": f"{test.memory_gi}Gi",
        "timeoutSeconds": test.timeout_seconds,
        "annotations": dict(cluster.validation.pod_annotations),
        "claimTemplate": claim["metadata"]["name"] if claim else None,
        "spec": pod_spec(
            runtime_class=None if claim else runtime_class,
            pull_secret=cluster.registry.pull_secret or None,
            priority_class=cluster.validation.namespace,
        ),
    }


def _spaces(cluster: Cluster) -> list[str]:
    """Namespaces whose DaemonSets bring GPUs to containers."""
    namespaces = {platform_of(cluster).namespace}
    if cluster.installer is not None:
        namespaces.add(cluster.installer.namespace)
    return sorted(namespaces)
