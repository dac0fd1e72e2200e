"""Select the Python interpreter for a Pulumi project."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from google.protobuf import json_format


class InterpreterNotFound(Exception):
    """Error: the virtual environment that the Pulumi project names does not exist."""


def options(info: Any) -> dict[str, Any]:
    """Return `runtime.options` of a `ProgramInfo` message as a dict."""
    decoded: dict[str, Any] = json_format.MessageToDict(info.options)
    return decoded


def virtualenv(info: Any) -> Path | None:
    """Return the virtual environment's folder from `runtime.options.virtualenv`, or None.

    A relative path starts at the folder of `Pulumi.yaml` (or `PulumiPolicy.yaml`), as in the
    official host (sdk/python/toolchain/pip.go of pulumi/pulumi).
    """
    folder_name = options(info).get("virtualenv")
    return Path(info.root_directory or info.program_directory, folder_name) if folder_name else None


def find(info: Any) -> str:
    """Return the path of the Python interpreter for a Pulumi program.

    The first that exists is used: the interpreter of `runtime.options.virtualenv`, that of
    `$VIRTUAL_ENV`, `python3` on PATH, the interpreter of this process.

    Raises:
        InterpreterNotFound: The virtual environment of the project has no interpreter.
    """
    folder = virtualenv(info)
    if folder is not None:
        python = folder / "bin" / "python"
        if not python.exists():
            raise InterpreterNotFound(
                f"runtime.options.virtualenv: {folder} has no bin/python. "
                "Make the virtual environment (`make up`, or `pulumi install`) and run again."
            )
        return str(python)
    active = os.environ.get("VIRTUAL_ENV")
    if active and Path(active, "bin", "python").exists():
        return str(Path(active, "bin", "python"))
    return shutil.which("python3") or sys.executable


def is_own(python: str) -> bool:
    """Check that an interpreter belongs to the virtual environment of this process."""
    prefix = Path(python).parent.parent
    try:
        return prefix.samefile(sys.prefix)
    except OSError:
        return False
