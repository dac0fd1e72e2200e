"""Import the Pulumi SDK's gRPC messages without the rest of the SDK.

Importing the whole SDK takes longer than all other imports of a plugin together.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_PACKAGES = {"pulumi": ".", "pulumi.runtime": "runtime"}
"""The packages that contain the messages, with their folders in the SDK."""


def alone() -> None:
    """Make ``pulumi.runtime.proto`` importable without running its parents' ``__init__``."""
    found = importlib.util.find_spec("pulumi")
    for root in found.submodule_search_locations or () if found else ():
        for name, folder in _PACKAGES.items():
            package = sys.modules[name] = ModuleType(name)
            package.__path__ = [str(Path(root, folder))]


def with_sdk() -> None:
    """Import the whole SDK; message classes that are already imported stay the same objects."""
    for name in _PACKAGES:
        del sys.modules[name]
    import pulumi

    pulumi.runtime.proto = sys.modules["pulumi.runtime.proto"]
