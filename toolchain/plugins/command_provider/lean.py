"""Loads the SDK's protocol messages without the SDK around them.

`import pulumi` costs about 0.2 s of processor time (automation API, dynamic providers, telemetry),
which every preview would wait for; a provider needs the messages only.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def install() -> None:
    """Makes `pulumi`, `pulumi.runtime` and `pulumi.runtime.proto` plain folders of modules.

    For a process of its own, before anything imports `pulumi`.

    Raises:
        ModuleNotFoundError: the SDK is not installed beside this interpreter.
    """
    spec = importlib.util.find_spec("pulumi")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the package pulumi is not installed for {sys.executable}")
    folder = Path(spec.origin).parent
    for name in ("pulumi", "pulumi.runtime", "pulumi.runtime.proto"):
        module = ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = module
