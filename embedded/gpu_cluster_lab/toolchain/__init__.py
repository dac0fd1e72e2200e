"""Pinned tools that this project runs: found on PATH, downloaded or built, and then cached.

>>> tools = ensure("pulumi", "kwokctl")
>>> tools["pulumi"].path
"""

from __future__ import annotations

from pathlib import Path

from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.machine.tool import Tool

from .resolve import Toolchain

__all__ = ["Tool", "bin_dir", "cache_dir", "ensure", "environment"]


def ensure(*names: str, refresh: bool = False) -> dict[str, Tool]:
    """Return the tools by name; without names all tools. Download or build missing tools.

    On a machine that can't download releases, the first call builds tools, which takes minutes;
    progress is shown on standard error. A later call with a filled cache starts no process.

    Args:
        names: Names of tools, as in `embedded/gpu_cluster_lab/toolchain/pins.py`.
        refresh: Whether to look again for official tools in place of the project's own.

    Raises:
        ToolchainError: A tool could not be found, downloaded or built.
    """
    return Toolchain().ensure(*names, refresh=refresh)


def bin_dir() -> Path:
    """Return the cache folder with all tools that `ensure` has returned, as one entry for PATH."""
    return Toolchain().bin


def environment() -> dict[str, str]:
    """Return environment variables for the tools: ``PATH`` and ``GPU_CLUSTER_PYTHON``.

    ``PATH`` begins with the folder of the tools. The launcher scripts of the project's own plugins
    read ``GPU_CLUSTER_PYTHON``.
    """
    return Toolchain().environment()
