"""Collection of the files that `assetPaths` and `archivePaths` name, after a local command."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from . import values


def pattern(glob: str) -> re.Pattern[str]:
    """Return a regular expression for a glob.

    `*` and `?` do not match `/`; `**` does. `[…]`, `{a,b}` and a backslash have their usual
    meaning. The syntax is that of github.com/gobwas/glob with the separator `/`.

    Raises:
        ValueError: A `[` or `{` is not closed.
    """
    out, depth, index = "", 0, 0
    while index < len(glob):
        character = glob[index]
        index += 1
        if character == "*":
            if glob[index : index + 1] == "*":
                index += 1
                out += ".*"
            else:
                out += "[^/]*"
        elif character == "?":
            out += "[^/]"
        elif character == "[":
            end = glob.find("]", index + 1)
            if end < 0:
                raise ValueError(f"glob {glob!r}: '[' without ']'")
            body = glob[index:end].replace("\\", "\\\\")
            out += "[" + ("^" + body[1:] if body.startswith("!") else body) + "]"
            index = end + 1
        elif character == "{":
            depth += 1
            out += "(?:"
        elif character == "}" and depth:
            depth -= 1
            out += ")"
        elif character == "," and depth:
            out += "|"
        elif character == "\\" and index < len(glob):
            out += re.escape(glob[index])
            index += 1
        else:
            out += re.escape(character)
    if depth:
        raise ValueError(f"glob {glob!r}: '{{' without '}}'")
    return re.compile(out + r"\Z", re.DOTALL)


def _files(directory: str) -> Iterator[str]:
    for folder, folders, names in os.walk(directory):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted(names + links):
            yield os.path.relpath(os.path.join(folder, name), directory)


def assets(directory: str, globs: Sequence[str]) -> dict[str, Any]:
    """Return the files that match globs, as assets by path relative to `directory`.

    A glob that begins with `!` excludes files. If several globs match a file, the last one decides.
    """
    rules = [(glob.startswith("!"), pattern(glob.removeprefix("!"))) for glob in globs]
    result = {}
    for path in _files(directory):
        matching = [excluded for excluded, rule in rules if rule.match(path)]
        if matching and not matching[-1]:
            result[path] = _asset(os.path.join(directory, path))
    return result


def archive(directory: str, globs: Sequence[str]) -> dict[str, Any]:
    """Return an archive of the files that match globs; its hash covers file names and contents."""
    members = assets(directory, globs)
    total = hashlib.sha256()
    for path, member in members.items():
        total.update(f"{len(path)}:{path}{member['hash']}".encode())
    return {
        values.SIGNATURE: values.ARCHIVE,
        "assets": members,
        "hash": total.hexdigest(),
    }


def _asset(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {values.SIGNATURE: values.ASSET, "path": path, "hash": digest}
