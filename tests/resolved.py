"""Parts of a declaration as the program resolves them."""

from __future__ import annotations

from components.desired.resolve import resolve
from components.platforms.base import Platform
from components.settings.cluster import Cluster


def platform_of(cluster: Cluster) -> Platform:
    """Return the platform that a declaration has."""
    return resolve(cluster, "test").platform
