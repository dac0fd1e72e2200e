"""Host preparation with empty scripts that only restart containerd: the minimum time of B1.

The remaining time is that of the inspection, the Pulumi engine with its state, the upload of the
scripts, and four SSH logins per host.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from gpu_cluster.hosts.phases import prepare_script, runtime_script
from gpu_cluster.hosts.script import Declaration


def emptied(script: Callable[..., Declaration], text: str) -> Callable[..., Declaration]:
    """Return a replacement for the function `script`.

    The replacement declares the script `text`, and uploads the same files as the original.
    """

    def made(*args: Any) -> Declaration:
        whole = script(*args)
        return Declaration.of(text, whole.bundles, whole.settings)

    return made


preparing = emptied(prepare_script, ":\n")
running = emptied(runtime_script, "systemctl restart containerd\n")
with (
    mock.patch("gpu_cluster.hosts.component.prepare_script", preparing),
    mock.patch("gpu_cluster.hosts.component.runtime_script", running),
):
    runpy.run_path(str(Path(__file__).resolve().parents[1] / "hosts_stack" / "__main__.py"))
