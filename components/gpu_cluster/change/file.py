"""Write the change document to the file or folder in the environment variable `VARIABLE`."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulumi

from gpu_cluster.change.document import Document, Outcome, Problem
from gpu_cluster.change.lines import StackFile, located
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable

VARIABLE = "GPU_CLUSTER_CHANGE"
"""Environment variable with the path of the file that gets the change document.

If the path is a folder, each `GpuCluster` of the program writes a separate file to the folder.
"""
PRIVATE = 0o600
"""Mode of the file: only its owner may read it, because it names pods and hosts."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def write(document: Document, name: str) -> None:
    """Write a document to the path in the environment variable `VARIABLE`, if it is set.

    The file is replaced atomically, so that a reader never sees a part of it.

    Args:
        name: Name of the component that the document is about; the file's name in a folder.

    Raises:
        RunError: The file can't be written.
    """
    if not (target := os.environ.get(VARIABLE)):
        return
    path = Path(target)
    if path.is_dir():
        plain = bool(_PLAIN.fullmatch(name))
        path /= f"{name if plain else hashlib.sha256(name.encode()).hexdigest()[:16]}.json"
    try:
        replace_text(path, document.write())
    except OSError as error:
        found = f"{printable(str(path), 200)}: {error.strerror}"
        cure = "create its folder, or name another file or folder"
        fault = Fault(VARIABLE, found, "a path where a file can be written", cure)
        raise pulumi.RunError(str(fault)) from error


class Inspected(pulumi.RunError):
    """An error for a fault that the change document already contains."""


@contextmanager
def failures_written(name: str, source: str) -> Iterator[None]:
    """Write a change document with the error if the code inside raises a RunError or FaultError.

    An `Inspected` error is ignored, because its change document is already written.

    Args:
        source: Name of the stack file.

    Raises:
        RunError: The code inside raised an error; the engine shows its text without a traceback.
    """
    try:
        yield
    except Inspected:
        raise
    except (pulumi.RunError, FaultError) as error:
        stack, faults = pulumi.get_stack(), (Problem(text=str(error)),)
        document = Document(stack=stack, outcome=Outcome.FAILED, faults=faults)
        write(located(document, StackFile.read(Path(source))), name)
        raise pulumi.RunError(str(error)) from None


def replace_text(path: Path, text: str) -> None:
    """Replace a file's content as a whole; only the file's owner can read it.

    Raises:
        OSError: The file can't be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)
