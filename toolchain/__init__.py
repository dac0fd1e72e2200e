"""The pinned tools that the product runs: found on PATH, downloaded, or built; once per cache.

>>> tools = ensure("pulumi", "kwokctl")
>>> tools["pulumi"].path
"""

from __future__ import annotations

from pathlib import Path

from .cache import cache_dir
from .resolve import Toolchain
from .tool import Tool, ToolchainError

__all__ = ["Tool", "ToolchainError", "bin_dir", "cache_dir", "ensure", "environment"]


def ensure(*names: str) -> dict[str, Tool]:
    """The tools by name, all where no name is given; makes what is missing.

    The first call on a machine without release downloads takes minutes and shows progress on
    standard error; a warm one starts no process. Raises :class:`ToolchainError`.
    """
    return Toolchain().ensure(*names)


def bin_dir() -> Path:
    """The folder that holds the tools which :func:`ensure` was asked for: one entry for PATH."""
    return Toolchain().bin


def environment() -> dict[str, str]:
    """``PATH`` with the tools in front and ``GPU_CLUSTER_HOME``, which launchers need."""
    return Toolchain().environment()
