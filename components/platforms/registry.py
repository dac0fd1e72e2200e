"""Finds platforms by their names: `PLATFORM` in `platform.py` of each folder here.

Discovered, not listed: a folder more is a platform more. Imported when asked for, so a run loads
its own platform only.
"""

from __future__ import annotations

import importlib
from functools import cache

from components.platforms.base import Platform
from components.platforms.site import Site
from components.settings.cluster import Cluster
from components.settings.platform import NAMES


@cache
def named(name: str) -> type[Platform]:
    """Return the platform of a name: what it is in every stack.

    Raises:
        TypeError: the folder's `platform.py` holds no `PLATFORM`.
    """
    module = importlib.import_module(f"components.platforms.{_folder(name)}.platform")
    platform = getattr(module, "PLATFORM", None)
    if not (isinstance(platform, type) and issubclass(platform, Platform)):
        raise TypeError(
            f"{module.__file__}: found no PLATFORM; wanted: a class derived from Platform; "
            "cure: see docs/platforms.md"
        )
    return platform


def platform_of(cluster: Cluster) -> Platform:
    """Return the platform that a configuration declares, with its settings and its site.

    Cheap: it copies references. The same configuration gives an equal platform.
    """
    installer = cluster.installer
    site = Site(
        context=cluster.kubernetes.context,
        platform=cluster.platform,
        pools=cluster.pools,
        node_taints=cluster.scheduling.node_taints,
        has_hosts=bool(cluster.hosts),
        plugin_memory=installer.plugin_memory if installer else None,
        runtime=cluster.runtime,
        driver=cluster.driver,
        registry=cluster.registry,
        proxy=cluster.proxy,
    )
    settings = getattr(cluster, _folder(cluster.platform), None)
    return named(cluster.platform)(settings, site)


def every() -> tuple[type[Platform], ...]:
    """Return all platforms, in the order of their names."""
    return tuple(named(name) for name in NAMES)


def _folder(name: str) -> str:
    """Return the folder of a platform, and the name of its section in `Cluster`."""
    return name.replace("-", "_")
