"""GPU platform of a declared cluster, as the program resolves it."""

from __future__ import annotations

from components.desired.resolve import resolve
from components.platforms.base import Platform
from components.settings.cluster import Cluster


def platform_of(cluster: Cluster) -> Platform:
    """Return the GPU platform of a declared cluster."""
    return resolve(cluster, "test").platform
