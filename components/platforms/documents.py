"""What the check and the inspection are asked about a platform: a plain document."""

from __future__ import annotations

from typing import Any

from components.nodes.pools import gpu_pools
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster

Json = dict[str, Any]


def presence_document(cluster: Cluster) -> Json:
    """Input of the program ``presence``: the release, and what this program makes beside it.

    Parts that wait for a secret are left out: where the stack has none, others make them.
    """
    platform = platform_of(cluster)
    objects = [_named(part.manifest) for part in platform.parts(cluster) if not part.secret]
    objects += [
        _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", name)
        for name in platform.definitions(cluster)
    ]
    objects += [
        _object("node.k8s.io/v1", "RuntimeClass", program.document["name"])
        for program in platform.programs(cluster)
        if program.name == "runtime_class"
    ]
    if cluster.driver.managed_by_daemonset:
        space = cluster.driver_installer.namespace
        objects += [
            _object("apps/v1", "DaemonSet", f"nvidia-driver-installer-{pool.name}", space)
            for pool in gpu_pools(cluster)
        ]
    return {
        "context": cluster.kubernetes.context,
        "platform": cluster.platform,
        "release": {"name": platform.chart, "namespace": platform.namespace(cluster)},
        "objects": objects,
    }


def _named(manifest: Json) -> Json:
    metadata = manifest["metadata"]
    return _object(
        manifest["apiVersion"], manifest["kind"], metadata["name"], metadata.get("namespace", "")
    )


def _object(api_version: str, kind: str, name: str, namespace: str = "") -> Json:
    return {"apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name}
