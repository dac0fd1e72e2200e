"""Search for secrets in everything that git would publish: every version of every tracked file.

Keys and tokens are recognised by their fixed prefixes, so that there are few false positives. Test
keys are allowed in the folders of `ALLOWED`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

from gpu_cluster.commands.files import ROOT

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
"""Folders in which examples of keys and tokens are allowed."""


def found_in(content: bytes) -> list[str]:
    """Return the kinds of secrets that a file's content seems to contain."""
    return [kind for kind, pattern in _ANY.items() if pattern.search(content)]


def _git_output(*arguments: str, text: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, input=text, capture_output=True, check=True
    )
    return done.stdout


def blobs() -> dict[str, str]:
    """Return a path for each file version in the history and in the index, by git object id."""
    lines = _git_output("rev-list", "--objects", "--all").decode(errors="replace").splitlines()
    pairs = (line.partition(" ") for line in lines)
    paths = {name: path for name, _, path in pairs if path}
    for line in _git_output("ls-files", "--stage").decode(errors="replace").splitlines():
        words, _, path = line.partition("\t")
        paths[words.split()[1]] = path
    return paths


def _blob_contents(names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the id and content of git blobs with one git command; skip trees and commits."""
    data = _git_output("cat-file", "--batch", text="\n".join(names).encode())
    place = 0
    while place < len(data):
        end = data.index(b"\n", place)
        name, kind, size = data[place:end].decode().split()
        begin = end + 1
        if kind == "blob":
            yield name, data[begin : begin + int(size)]
        place = begin + int(size) + 1


def scan() -> list[str]:
    """Return a line for each suspected secret."""
    tracked = blobs()
    judged = {name: path for name, path in tracked.items() if not ALLOWED.match(path)}
    return [
        f"{judged[name]} (object {name[:12]}): found {kind}; wanted: none; cure: revoke it, then "
        "remove it from the history"
        for name, content in _blob_contents(judged)
        for kind in found_in(content)
    ]


def main() -> None:
    """Print the suspected secrets; exit with 1 if there are any."""
    lines = scan()
    print("\n".join(lines) or f"secret scan: nothing in {len(blobs())} versions of files")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
