"""Which Python interpreter a project names."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from google.protobuf import json_format


class InterpreterNotFound(Exception):
    """The project names a virtual environment that is not there."""


def options(info: Any) -> dict[str, Any]:
    """`runtime.options` of a `ProgramInfo` message as a plain dict."""
    decoded: dict[str, Any] = json_format.MessageToDict(info.options)
    return decoded


def virtualenv(info: Any) -> Path | None:
    """The folder of the virtual environment that `runtime.options.virtualenv` names, or None.

    A relative path is taken from the folder of `Pulumi.yaml` (or `PulumiPolicy.yaml`), as by the
    official host (sdk/python/toolchain/pip.go of pulumi/pulumi).
    """
    named = options(info).get("virtualenv")
    return Path(info.root_directory or info.program_directory, named) if named else None


def find(info: Any) -> str:
    """The path of the interpreter for a program.

    `runtime.options.virtualenv`, else `$VIRTUAL_ENV`, else `python3` on PATH, else the host's own.

    Raises:
        InterpreterNotFound: the named environment has no interpreter.
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
    """Whether `python` belongs to the environment that this process runs in."""
    prefix = Path(python).parent.parent
    try:
        return prefix.samefile(sys.prefix)
    except OSError:
        return False
