"""Check of docs/contributing.md on a copy of the project: `make test-newcomer ONLY=rule`.

Each section of that page is a task. Its code blocks are applied in order: a block whose first line
names a path is a new file, a ``diff`` block is a change, and an ``sh`` block must succeed. The last
line counts the files that a person has to write or change for each task, without tests. Files that
a command of the task writes are listed separately.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.commands.files import project_files

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "contributing.md"
SECTION = re.compile(r"^## (?:Add|Change) an? (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
LIMIT = 600
"""Time limit of a command on the page, in seconds."""
GOALS = {
    "rule": 1,
    "host step": 2,
    "software step": 3,
    "chart setting": 3,
    "platform": 2,
    "pool field": 2,
    "default": 1,
}
"""Maximum number of files that a person has to write or change for each task, without its test."""
_NO_SOURCE = {"tests", "venv", "__pycache__"}
"""Folders whose files are not counted; folders that start with a dot are caches of tools."""


@dataclass(frozen=True)
class Block:
    """Code block of docs/contributing.md.

    Attributes:
        language: The block's language, for example ``diff``.
        path: The path of a new file, else empty.
        text: The text of the block.
    """

    language: str
    path: str
    text: str


def tasks(page: str) -> dict[str, list[Block]]:
    """Return the tasks of docs/contributing.md by their heading, without its verb and article."""
    return {
        title: [Block(*parts) for parts in BLOCK.findall(body)]
        for title, body in SECTION.findall(page)
    }


def sources(folder: Path) -> dict[str, str]:
    """Return the SHA-256 sum of each source file in a folder, without tests and caches."""
    sums = {}
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        skipped = any(part in _NO_SOURCE or part.startswith(".") for part in parts)
        if not skipped and path.is_file():
            sums["/".join(parts)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return sums


def touched(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the files that were changed, added or deleted between two states of a folder."""
    return sorted({name for name, _ in before.items() ^ after.items()})


def by_hand(blocks: list[Block]) -> list[str]:
    """Return the files that the code blocks of a task write or change, without tests."""
    named = {block.path for block in blocks if block.path}
    for block in blocks:
        if block.language == "diff":
            named.update(re.findall(r"^\+\+\+ b/(\S+)$", block.text, re.M))
    return sorted(name for name in named if not name.startswith("tests/"))


def summary(counts: dict[str, int]) -> str:
    """Return the last output line: how many files a person must write or change for each task."""
    first, *others = (f"{name} {counts[name]}" for name in GOALS if name in counts)
    return "newcomer: " + ", ".join([f"{first} files", *others])


def copy(folder: Path) -> None:
    """Copy the project with its tests; link its virtual environment instead of copying it."""
    for name in project_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    (folder / "venv").symlink_to(ROOT / "venv")


def perform(blocks: list[Block], folder: Path) -> Iterator[str]:
    """Apply a task's code blocks in order.

    Stop at the first block that fails and yield its output.
    """
    for block in blocks:
        if block.path:
            target = folder / block.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, encoding="utf-8")
            continue
        if block.language == "diff":
            command, given = ["git", "apply", "--recount", "-"], _with_headers(block.text)
        elif block.language == "sh":
            command, given = ["bash", "-euo", "pipefail", "-c", block.text], None
        else:
            continue
        done = subprocess.run(
            command,
            cwd=folder,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
            check=False,
            env={
                **os.environ,
                "GIT_CEILING_DIRECTORIES": str(folder.parent),
                # A plugin that ends after its engine must not write while the folder is removed.
                "PYTHONDONTWRITEBYTECODE": "1",
            },
        )
        if done.returncode:
            yield f"{block.text}\n{done.stdout}"
            return


def _with_headers(text: str) -> str:
    """Return a diff of several files with a git header before each file.

    Without these headers, `git apply --recount` takes ``---`` for a removed line.
    """
    return re.sub(r"^--- a/(\S+)$", r"diff --git a/\1 b/\1\n--- a/\1", text, flags=re.M)


def main() -> int:
    """Perform all tasks, or only the tasks named on the command line; return how many failed."""
    pages = tasks(PAGE.read_text(encoding="utf-8"))
    chosen = [name for name in pages if not sys.argv[1:] or name.split()[0] in sys.argv[1:]]
    if not chosen:
        words = ", ".join(sorted({name.split()[0] for name in pages}))
        print(f"newcomer: found {' '.join(sys.argv[1:])!r}; wanted: one of {words}")
        return 2
    counts: dict[str, int] = {}
    failed = 0
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="gpu-cluster-newcomer-") as folder:
            copy(Path(folder))
            before = sources(Path(folder))
            faults = list(perform(pages[name], Path(folder)))
            files = touched(before, sources(Path(folder)))
        written = by_hand(pages[name])
        if not faults and (lost := set(written) - set(files)):
            faults.append(f"{name}: found {', '.join(sorted(lost))} unchanged; wanted: a change")
        counts[name] = len(written)
        if len(written) > GOALS[name]:
            faults.append(f"{name}: found {len(written)} files; wanted: {GOALS[name]} at most")
        failed += bool(faults)
        print(f"{name}: {'failed' if faults else 'done'}, by hand {', '.join(written)}")
        if generated := sorted(set(files) - set(written)):
            print(f"{name}: written by its commands: {', '.join(generated)}", flush=True)
        for fault in faults:
            print(fault)
    print(f"newcomer: {len(chosen) - failed} of {len(chosen)} tasks done")
    print(summary(counts))
    return failed


if __name__ == "__main__":
    sys.exit(main())
