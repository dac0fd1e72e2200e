"""Find and read the files that the command line of the checker names."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

from ..faults import InputError
from .document import Source
from .ignored import IgnoredPaths
from .problem import Problem
from .stream import decode, split
from .template import is_manifest

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
SUFFIXES: Final = (".yaml", ".yml", ".json")
# Maximum size of a file, in bytes.
SIZE_LIMIT: Final = 256 * 1024 * 1024
# Maximum number of folders in one another; a path of Linux can have 2,048.
FOLDERS_LIMIT: Final = 200
# Size of most files, in bytes. Python allocates memory for as many bytes as `read` is asked for.
_USUAL_SIZE: Final = 64 * 1024


@dataclass(frozen=True)
class Name:
    """The name of a file to check.

    Attributes:
        path: Path of the file, or `-` for standard input.
        given: Whether an argument names the file itself and not only its folder. Such a file must
            contain manifests.
    """

    path: str
    given: bool

    @cached_property
    def real(self) -> str:
        """Return the real path of the file, which is the same for all names of the file.

        The inode number is not used, because on some file systems it can change (Linux
        Documentation/filesystems/overlayfs.rst, "Inode properties").
        """
        if self.path == STDIN:
            return STDIN
        try:
            if os.path.islink(self.path):
                return os.path.realpath(self.path)
            folder, base = os.path.split(self.path)
            return os.path.join(_real_folder(folder), base)
        except (OSError, ValueError, RecursionError):
            # Python resolves links by recursion; reading the file names the fault.
            return self.path


@cache
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def find(arguments: Iterable[str], ignored: IgnoredPaths) -> Iterator[Name | Problem]:
    """Yield each file that the command line names, once.

    A folder stands for all YAML and JSON files below it, in the order of their names. Hidden
    folders inside a named folder are skipped. An argument that names nothing yields a `Problem`.

    Args:
        arguments: Files, folders, glob patterns (`**` matches any number of folders), or `-` for
            standard input.
        ignored: Files and folders that are left out.
    """
    seen: set[str] = set()
    for argument in arguments:
        if argument == STDIN:
            yield Name(argument, given=True)
            continue
        is_name = os.path.lexists(argument)
        try:
            names = [argument] if is_name else sorted(glob.glob(argument, recursive=True))
        except RecursionError:
            yield _too_deep(argument)
            continue
        if not names:
            wanted = "a file, a folder, a pattern or -"
            yield Problem(argument, None, None, "no such file", wanted, "Check the name.")
        for name in (inner for path in names for inner in _expand(path, is_name, ignored)):
            if isinstance(name, Problem):
                yield name
            elif name.real.count(os.sep) > FOLDERS_LIMIT:
                yield _too_deep(name.path)
            elif name.real not in seen:
                seen.add(name.real)
                yield name


def _expand(path: str, is_name: bool, ignored: IgnoredPaths) -> Iterator[Name | Problem]:
    if ignored.includes(path):
        return
    if os.path.isdir(path):
        yield from _below(path, ignored)
    else:
        yield Name(path, given=is_name)


def _below(folder: str, ignored: IgnoredPaths) -> Iterator[Name | Problem]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield _unreadable(folder, error, "a readable folder")
        return
    for entry in inside:
        if entry.is_dir(follow_symlinks=False):
            if entry.name.startswith(".") or ignored.includes(entry.path):
                continue
            if entry.path.count(os.sep) > FOLDERS_LIMIT:
                yield _too_deep(entry.path)
            else:
                yield from _below(entry.path, ignored)
        elif entry.name.endswith(SUFFIXES) and not ignored.includes(entry.path):
            try:
                if entry.is_file():
                    yield Name(entry.path, given=False)
            except OSError as error:
                yield _unreadable(entry.path, error, "a readable file")


def read(file: Name) -> Iterator[Source | Problem]:
    """Yield the YAML and JSON documents of a file, or a `Problem` if the file cannot be read."""
    name = file.path
    shown_name = STDIN_NAME if name == STDIN else name
    try:
        if name == STDIN and sys.stdin is None:
            raise InputError("no standard input", "manifests on it", "Pipe them in.")
        if name == STDIN:
            raw = sys.stdin.buffer.read(SIZE_LIMIT + 1)
        else:
            with open(name, "rb") as opened:
                raw = opened.read(_USUAL_SIZE)
                if len(raw) == _USUAL_SIZE:
                    raw += opened.read(SIZE_LIMIT + 1 - _USUAL_SIZE)
        if len(raw) > SIZE_LIMIT:
            raise InputError(
                f"more than {SIZE_LIMIT} bytes", "a smaller file", "Split it into several files."
            )
        for stream_part in split(_text(raw, strict=file.given)):
            yield Source(shown_name, stream_part, given=file.given)
    except OSError as error:
        yield _unreadable(shown_name, error, "a readable file")
    except InputError as error:
        yield Problem.of(error, shown_name, None, error.line)


def _text(raw: bytes, *, strict: bool) -> str:
    """Return the text of a file.

    Invalid bytes are replaced, unless the file looks like a manifest or must contain manifests.

    Args:
        raw: Content of the file.
        strict: Whether the file must contain manifests.

    Raises:
        InputError: The file has invalid bytes that are not replaced.
    """
    try:
        return decode(raw)
    except InputError:
        replaced = raw.decode(errors="replace").replace("\0", "")
        if strict or is_manifest(replaced):
            raise
        return replaced


def _unreadable(name: str, error: OSError, wanted: str) -> Problem:
    reason = (error.strerror or str(error)).lower()
    return Problem(name, None, None, reason, wanted, "Check its name and permissions.")


def _too_deep(name: str) -> Problem:
    found, wanted = f"more than {FOLDERS_LIMIT} folders in one another", "fewer folders"
    return Problem(name, None, None, found, wanted, "Leave the folder out with --ignore-paths.")
