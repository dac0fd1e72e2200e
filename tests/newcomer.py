"""Does what docs/contributing.md says, on a copy: `make test-newcomer ONLY=rule`.

Each section of that page is one task. Its code blocks are applied in their order: a block whose
first line names a path is a new file, a ``diff`` block is a change, an ``sh`` block must succeed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from commands.files import project_files

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "contributing.md"
SECTION = re.compile(r"^## (?:Add|Change) an? (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)
LIMIT = 600
"""Seconds for one command of the page."""


@dataclass(frozen=True)
class Block:
    """A code block: its language, the path of a new file or nothing, its text."""

    language: str
    path: str
    text: str


def tasks(page: str) -> dict[str, list[Block]]:
    """The page's tasks by the first word of their heading."""
    found = {}
    for title, body in SECTION.findall(page):
        found[title.split()[0]] = [Block(*parts) for parts in BLOCK.findall(body)]
    return found


def copy(folder: Path) -> None:
    """The project with its tests; the virtual environment as a link."""
    for name in project_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    (folder / "venv").symlink_to(ROOT / "venv")


def perform(blocks: list[Block], folder: Path) -> Iterator[str]:
    """Applies the blocks one after the other; yields what failed."""
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
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
        )
        if done.returncode:
            yield f"{block.text}\n{done.stdout}"
            return


def _with_headers(text: str) -> str:
    """A change of several files as git writes it: without, `--recount` takes ``---`` for a line."""
    return re.sub(r"^--- a/(\S+)$", r"diff --git a/\1 b/\1\n--- a/\1", text, flags=re.M)


def main() -> int:
    """Performs all tasks, or those that the arguments name; the number of failed ones."""
    found = tasks(PAGE.read_text(encoding="utf-8"))
    chosen = sys.argv[1:] or list(found)
    failed = 0
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="gpu-cluster-newcomer-") as folder:
            copy(Path(folder))
            faults = list(perform(found[name], Path(folder)))
        failed += bool(faults)
        print(f"{name}: {'failed' if faults else 'done'}, {len(found[name])} blocks", flush=True)
        for fault in faults:
            print(fault)
    print(f"newcomer: {len(chosen) - failed} of {len(chosen)} tasks done")
    return failed


if __name__ == "__main__":
    sys.exit(main())
