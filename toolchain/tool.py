"""A tool of the toolchain, and what goes wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tool:
    """One usable tool.

    ``name``: the executable's name. ``version``: without a leading ``v``. ``origin``: how it came
    here, in words for people: ``PATH``, ``release``, ``Go module``, ``project's own``.
    ``path``: the executable itself, or its entry in the toolchain's ``bin`` folder.
    """

    name: str
    version: str
    origin: str
    path: Path


ON_PATH = "PATH"
RELEASE = "release"
GO_MODULE = "Go module"
OWN = "project's own"


class ToolchainError(RuntimeError):
    """A tool that cannot be had; the message names it, what was tried and the cure."""
