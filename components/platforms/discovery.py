"""Finds platforms by their names: `PLATFORM` in `platform.py` of each folder here.

Discovered, not listed: a folder more is a platform more. Imported when asked for, so a run loads
its own platform only.
"""

from __future__ import annotations

import importlib
from functools import cache

from components.platforms.base import Platform
from components.settings.platform import NAMES


@cache
def named(name: str) -> type[Platform]:
    """Return the platform of a name: what it is in every stack.

    Raises:
        TypeError: the folder's `platform.py` holds no `PLATFORM`.
    """
    module = importlib.import_module(f"components.platforms.{section_of(name)}.platform")
    platform = getattr(module, "PLATFORM", None)
    if not (isinstance(platform, type) and issubclass(platform, Platform)):
        raise TypeError(
            f"{module.__file__}: found no PLATFORM; wanted: a class derived from Platform; "
            "cure: see docs/platforms.md"
        )
    return platform


def every() -> tuple[type[Platform], ...]:
    """Return all platforms, in the order of their names."""
    return tuple(named(name) for name in NAMES)


def section_of(name: str) -> str:
    """Return the name of a platform's folder, and of its section in the settings."""
    return name.replace("-", "_")
