"""The host part with scripts that do nothing but start containerd again: the floor of B1.

What is left: the inspection, the engine with its state, the copies of the steps, four log-ins.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from components.hosts.phases import prepare_script, runtime_script
from components.hosts.script import Declaration


def emptied(script: Callable[..., Declaration], text: str) -> Callable[..., Declaration]:
    """A script of that text, for which the same files are copied."""

    def made(*args: Any) -> Declaration:
        whole = script(*args)
        return Declaration.of(text, whole.bundles, whole.settings)

    return made


preparing = emptied(prepare_script, ":\n")
running = emptied(runtime_script, "systemctl restart containerd\n")
with (
    mock.patch("components.hosts.component.prepare_script", preparing),
    mock.patch("components.hosts.component.runtime_script", running),
):
    runpy.run_path(str(Path(__file__).resolve().parents[1] / "hosts_stack" / "__main__.py"))
