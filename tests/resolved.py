"""GPU platform of a declared cluster, as the program resolves it."""

from __future__ import annotations

from gpu_cluster.desired.resolve import resolve
from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.cluster import Cluster


def platform_of(cluster: Cluster) -> Platform:
    """Return the GPU platform of a declared cluster."""
    return resolve(cluster, "test").platform
