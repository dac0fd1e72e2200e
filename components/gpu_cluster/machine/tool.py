"""Tool of the toolchain, and the error for a tool that is not available."""

from __future__ import annotations

from collections.abc import Sequence
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


def table(tools: Sequence[Tool]) -> list[str]:
    """Return the lines of a table of tools, with a line of headings."""
    head = ("tool", "version", "origin", "path")
    rows = [head, *((tool.name, tool.version, tool.origin, str(tool.path)) for tool in tools)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join((*map(str.ljust, row[:3], widths), row[3])) for row in rows]
