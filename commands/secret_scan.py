"""Looks for secrets in what git would publish: tracked files, and every version of them.

It knows what keys and tokens look like by their fixed beginnings, so that it finds few things that
aren't any. Test keys are named in `ALLOWED` by their folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

from commands.environment import ROOT

PATTERNS = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s*\\?n?[A-Za-z0-9+/=\s]{64}",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})",
    "an AWS key": rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a Google key": rb"\bAIza[A-Za-z0-9_-]{35}\b",
    "a Slack token": rb"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a Pulumi token": rb"\bpul-[0-9a-f]{40}\b",
    "an NVIDIA token": rb"\bnvapi-[A-Za-z0-9_-]{60,}",
    "a password in an address": rb"https?://[A-Za-z0-9._-]+:[A-Za-z0-9%._~-]{8,}@[a-z0-9-]+\.",
}
_ANY = {what: re.compile(pattern) for what, pattern in PATTERNS.items()}
ALLOWED = re.compile(r"^(tests/|docs/)")
"""Where a thing that looks so is an example, and is written as one."""


def found_in(content: bytes) -> list[str]:
    """What looks like a secret in a file's content."""
    return [what for what, pattern in _ANY.items() if pattern.search(content)]


def _git(*arguments: str, text: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, input=text, capture_output=True, check=True
    )
    return done.stdout


def blobs() -> dict[str, str]:
    """Every version of every file in the history and in the index, by object: one of its paths."""
    lines = _git("rev-list", "--objects", "--all").decode(errors="replace").splitlines()
    pairs = (line.partition(" ") for line in lines)
    paths = {name: path for name, _, path in pairs if path}
    for line in _git("ls-files", "--stage").decode(errors="replace").splitlines():
        words, _, path = line.partition("\t")
        paths[words.split()[1]] = path
    return paths


def _contents(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Objects' contents in one run of git; folders and commits are passed over."""
    data = _git("cat-file", "--batch", text="\n".join(names).encode())
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        name, kind, size = data[place:end].decode().split()
        begin = end + 1
        if kind == "blob":
            yield name, data[begin : begin + int(size)]
        place = begin + int(size) + 1


def scan() -> list[str]:
    """A line for each thing that looks like a secret."""
    known = blobs()
    judged = {name: path for name, path in known.items() if not ALLOWED.match(path)}
    return [
        f"{judged[name]} (object {name[:12]}): found {what}; wanted: none; cure: revoke it, then "
        "take it out of the history"
        for name, content in _contents(judged)
        for what in found_in(content)
    ]


def main() -> None:
    """Prints what was found; exit code 1 if anything was."""
    lines = scan()
    print("\n".join(lines) or f"secret scan: nothing in {len(blobs())} versions of files")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
