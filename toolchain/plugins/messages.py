"""The SDK's messages without the SDK, which takes longer to import than all else of a plugin."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PACKAGES = {"pulumi": ".", "pulumi.runtime": "runtime"}
"""Above the messages, with their folders."""


def alone() -> None:
    """Has ``pulumi.runtime.proto`` imported without what the packages above it import."""
    found = importlib.util.find_spec("pulumi")
    for root in found.submodule_search_locations or () if found else ():
        for name, folder in _PACKAGES.items():
            package = sys.modules[name] = ModuleType(name)
            package.__path__ = [str(Path(root, folder))]


def with_sdk() -> None:
    """Imports the SDK around the messages that are imported already."""
    for name in _PACKAGES:
        del sys.modules[name]
    import pulumi

    pulumi.runtime.proto = sys.modules["pulumi.runtime.proto"]
