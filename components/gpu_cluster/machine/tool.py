"""Tool of the toolchain, and the error for a tool that is not available."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Tool:
    """Tool that is ready to run.

    Attributes:
        name: Name of the executable.
        version: The version, without a leading ``v``.
        origin: The source of the tool, as users read it: ``PATH``, ``release``, ``Go module`` or
            ``project's own``.
        path: Path of the executable, or of its link in the toolchain's ``bin`` folder.
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
    """Error: a tool is not available.

    The message has the tool's name, what was tried and what the user can do.
    """
