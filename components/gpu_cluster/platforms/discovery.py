"""Find platforms by name: the class is `PLATFORM` in `platform.py` of the platform's folder.

No list of platforms exists, so a new folder is a new platform. Platforms are imported on demand, so
that a run loads only the platform of its stack.
"""

from __future__ import annotations

import importlib
from functools import cache

from pydantic.alias_generators import to_camel

from gpu_cluster.platforms.base import Platform
from gpu_cluster.settings.platform import NAMES


@cache
def named(name: str) -> type[Platform]:
    """Return the class of a platform by the platform's name.

    Raises:
        TypeError: The folder's `platform.py` assigns no platform class to `PLATFORM`.
    """
    module = importlib.import_module(f"gpu_cluster.platforms.{section_of(name)}.platform")
    platform = getattr(module, "PLATFORM", None)
    if not (isinstance(platform, type) and issubclass(platform, Platform)):
        raise TypeError(
            f"{module.__file__}: found no PLATFORM; wanted: a class derived from Platform; "
            "cure: see docs/reference/platforms.md"
        )
    return platform


def every() -> tuple[type[Platform], ...]:
    """Return the classes of all platforms, sorted by name."""
    return tuple(named(name) for name in NAMES)


def section_of(name: str) -> str:
    """Convert a platform's name to its folder's name, which is also its field in `Cluster`."""
    return name.replace("-", "_")


SECTIONS = {to_camel(section_of(name)): section_of(name) for name in NAMES}
"""Field in `Cluster` of each platform's section, by its key in the stack file.

A platform without settings has no such field.
"""
