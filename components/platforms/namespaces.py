"""The namespaces that a stack makes and takes away."""

from __future__ import annotations

from dataclasses import dataclass

from components.platforms.registry import platform_of
from components.settings.cluster import Cluster


@dataclass(frozen=True)
class OwnNamespace:
    """One of them. `privileged`: its pods mount paths of the host and see all GPUs."""

    name: str
    privileged: bool = True


def own_namespaces(cluster: Cluster) -> tuple[OwnNamespace, ...]:
    """Every namespace of a configuration that the stack makes."""
    platform = platform_of(cluster)
    namespaces = [OwnNamespace(cluster.validation.namespace, privileged=False)]
    if platform.own_namespace:
        namespaces.append(OwnNamespace(platform.namespace(cluster)))
    if cluster.driver.managed_by_daemonset:
        namespaces.append(OwnNamespace(cluster.driver_installer.namespace))
    if cluster.monitoring is not None:
        namespaces.append(OwnNamespace(cluster.monitoring.namespace))
    return tuple(namespaces)
