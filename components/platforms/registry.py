"""Finds platforms by their names: `PLATFORM` in `platform.py` of each folder here.

Discovered, not listed: a folder more is a platform more. Imported when asked for, so a run loads
its own platform only.
"""

from __future__ import annotations

import importlib
from functools import cache

from components.platforms.base import Platform
from components.platforms.settings import NAMES
from components.settings.cluster import Cluster


@cache
def named(name: str) -> Platform:
    """The platform of a name.

    Raises:
        TypeError: the folder's `platform.py` holds no `PLATFORM`.
    """
    module = importlib.import_module(f"components.platforms.{name.replace('-', '_')}.platform")
    platform = getattr(module, "PLATFORM", None)
    if not isinstance(platform, Platform):
        raise TypeError(
            f"{module.__file__}: found no PLATFORM; wanted: an instance of Platform; "
            "cure: see docs/platforms.md"
        )
    return platform


def platform_of(cluster: Cluster) -> Platform:
    """The platform that a configuration declares."""
    return named(cluster.platform)


def every() -> tuple[Platform, ...]:
    """All platforms, in the order of their names."""
    return tuple(named(name) for name in NAMES)
