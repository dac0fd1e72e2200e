"""Find and read the files that the command line names."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from ..faults import InputError
from .document import CHART, Source
from .problem import Problem, Unjudged
from .stream import decode, split

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
SUFFIXES: Final = (".yaml", ".yml", ".json")
CHART_KIND: Final = "Helm chart"
# In bytes.
SIZE_LIMIT: Final = 256 * 1024 * 1024


def find(arguments: Iterable[str]) -> Iterator[str | Problem | Unjudged]:
    """Yield each file that the arguments name, once.

    A folder stands for all manifests below it, in the order of their names. Hidden folders inside a
    named folder are skipped. A Helm chart yields an `Unjudged`. An argument that matches no file
    yields a `Problem`.

    Args:
        arguments: Files, folders, patterns (`**` matches any depth), or `-` for standard input.
    """
    seen: set[str] = set()
    for argument in arguments:
        any_file = False
        for name in _expand(argument):
            any_file = True
            if not isinstance(name, str):
                yield name
            elif (key := _identity(name)) not in seen:
                seen.add(key)
                yield name
        if not any_file:
            yield Problem(argument, None, None, *_nothing(argument))


def _identity(name: str) -> str:
    """Return a key that is equal for two names of the same file.

    The key is the real path and not the inode number, because some file systems don't keep an inode
    number as long as the file exists (Linux Documentation/filesystems/overlayfs.rst, "Inode
    properties").
    """
    try:
        return os.path.realpath(name)
    except (OSError, ValueError):
        return name


def _nothing(argument: str) -> tuple[str, str, str]:
    if os.path.isdir(argument):
        endings = ", ".join(SUFFIXES)
        return "no manifests in it", f"files that end in {endings}", "Name another folder."
    return "no such file", "a file, a folder, a pattern or -", "Check the name."


def _expand(argument: str) -> Iterator[str | Problem | Unjudged]:
    if argument == STDIN:
        yield argument
        return
    names = [argument] if os.path.lexists(argument) else sorted(glob.glob(argument, recursive=True))
    for name in names:
        if os.path.isdir(name):
            yield from _below(name)
        else:
            yield name


def _below(folder: str) -> Iterator[str | Problem | Unjudged]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        if any(entry.name == CHART for entry in inside):
            yield Unjudged(folder, CHART_KIND)
            return
    except OSError as error:
        yield _unreadable(folder, error, "a readable folder")
        return
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith("."):
                yield from _below(entry.path)
        elif entry.name.endswith(SUFFIXES) and not entry.is_dir():
            yield entry.path


def read(name: str) -> Iterator[Source | Problem]:
    """Yield the documents of a file, or a `Problem` if the file cannot be read."""
    shown = STDIN_NAME if name == STDIN else name
    try:
        if name == STDIN and sys.stdin is None:
            raise InputError("no standard input", "manifests on it", "Pipe them in.")
        if name == STDIN:
            raw = sys.stdin.buffer.read(SIZE_LIMIT + 1)
        else:
            with open(name, "rb") as file:
                raw = file.read(SIZE_LIMIT + 1)
        if len(raw) > SIZE_LIMIT:
            raise InputError(
                f"more than {SIZE_LIMIT} bytes", "a smaller file", "Give it in several files."
            )
        for part in split(decode(raw)):
            yield Source(shown, part)
    except OSError as error:
        yield _unreadable(shown, error, "a readable file")
    except InputError as error:
        yield Problem.of(error, shown, None, error.line)


def _unreadable(name: str, error: OSError, wanted: str) -> Problem:
    reason = (error.strerror or str(error)).lower()
    return Problem(name, None, None, reason, wanted, "Check its name and permissions.")
