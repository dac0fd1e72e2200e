"""Packages that are installed for a Python interpreter, and their installation with pip."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import interpreter

_LIMIT = 60
"""Time limit in seconds for a short script that another interpreter runs."""

_INSTALLED = (
    "import importlib.metadata as m, json;"
    "print(json.dumps(sorted({(d.metadata['Name'], d.version) for d in m.distributions()})))"
)
_VERSION = "import platform; print(platform.python_version())"


def _ask(python: str, question: str) -> str:
    done = subprocess.run(
        [python, "-c", question], check=True, capture_output=True, text=True, timeout=_LIMIT
    )
    return done.stdout.strip()


def python_version(python: str) -> str:
    """Return the version of a Python interpreter.

    For the interpreter of this process no child process is started, because this function is called
    in every run.
    """
    return platform.python_version() if interpreter.is_own(python) else _ask(python, _VERSION)


def installed(python: str) -> list[tuple[str, str]]:
    """Return the sorted names and versions of the distributions that an interpreter can import."""
    return [(name, version) for name, version in json.loads(_ask(python, _INSTALLED))]


def install(info: Any) -> Iterator[bytes]:
    """Create a missing virtual environment, and install `requirements.txt` if this file exists.

    Yields:
        The output, line by line.

    Raises:
        subprocess.CalledProcessError: A step failed.
    """
    folder = interpreter.virtualenv(info)
    if folder is not None and not (folder / "bin" / "python").exists():
        yield f"Creating virtual environment {folder}\n".encode()
        yield from _stream([sys.executable, "-m", "venv", str(folder)], info.program_directory)
    python = interpreter.find(info)
    if Path(info.program_directory, "requirements.txt").exists():
        command = [python, "-m", "pip", "install", "-r", "requirements.txt"]
        yield from _stream(command, info.program_directory)


def _stream(command: list[str], folder: str) -> Iterator[bytes]:
    # A path in requirements.txt, such as that of a generated SDK, is relative to pip's folder.
    with subprocess.Popen(
        command,
        cwd=folder or None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        yield from process.stdout or ()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
