"""Output of a command: short text, or one JSON document.

With ``--output json`` standard output contains one JSON document, and everything else is printed on
standard error.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any, NoReturn, TextIO

from gpu_cluster.commands.failure import annotate
from gpu_cluster.machine.folders import cache_dir
from gpu_cluster.machine.tool import ToolchainError
from gpu_rules.printable import printable

# The JSON document that a command prints with ``--output json``.
Answer = dict[str, Any]


def verbose() -> bool:
    """Return whether the user wants the engine's own output (``--verbose``)."""
    return os.environ.get("VERBOSE") == "1"


def color() -> str:
    """Return the engine's setting for colours: on only if the output is a terminal."""
    return "always" if sys.stdout.isatty() else "never"


def say(text: str) -> None:
    """Print a piece of output immediately."""
    print(text, end="" if text.endswith("\n") else "\n", flush=True)


REFUSED = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Error codes of the system that mean that this machine does not allow a file to be written.

Such an error is not a bug of the program.
"""


@contextmanager
def refusals() -> Iterator[None]:
    """Exit with a one-line message if a file can't be written or a tool is not available."""
    try:
        yield
    except ToolchainError as error:
        _exit_with(f"toolchain: {error}")
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = error.filename2 or error.filename
        file_name = f" {printable(os.fsdecode(place))}" if isinstance(place, str | bytes) else ""
        _exit_with(
            f"cannot write{file_name or ' a file'}: {error.strerror}; cure: make room or allow "
            f"writing there, or set GPU_CLUSTER_CACHE (now {cache_dir()}) to another folder"
        )


def _exit_with(text: str) -> NoReturn:
    annotate(text)
    sys.exit(text)


@contextmanager
def apart() -> Iterator[TextIO | None]:
    """Yield standard output for the command's JSON document, or None without ``--output json``.

    While the context is open with ``--output json``, everything else is printed on standard error.
    """
    output = sys.stdout if os.environ.get("JSON") == "1" else None
    with redirect_stdout(sys.stderr if output else sys.stdout), refusals():
        yield output


@contextmanager
def answering(command: str) -> Iterator[Answer]:
    """Yield the JSON document of a command to fill, and print it with ``--output json``."""
    json_output: Answer = {"command": command, "succeeded": False}
    with apart() as output:
        try:
            yield json_output
            json_output["succeeded"] = True
        finally:
            if output:
                json.dump(json_output, output, indent=2, default=str)
                output.write("\n")
