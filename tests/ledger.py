"""Run proofs, and write what each counted into docs/proofs.md: `make proofs ONLY="rules logins"`.

A proof is a target `test-NAME` of the Makefile; without `ONLY` each of them runs. The page is
written after each proof, so a run that is stopped keeps what it has. A row holds for one tree: the
digest is that of all tracked files but the page itself. The last line says how many rows hold for
the current tree.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = Path("docs", "proofs.md")
HEAD = """# Proofs

Each proof of this project, written by `make proofs`. A proof is a target of the Makefile that
tests whole systems; its last line says what it counted. A row holds for the tree whose digest
stands in it: a row with another digest than this page's last line is older than the code.
`make proofs ONLY="rules logins"` runs some of them, `make proofs` all.

| proof | its last line | tree | day | minutes | machine | skipped |
| --- | --- | --- | --- | --- | --- | --- |
"""
TARGET = re.compile(r"^test-([\w-]+):", re.MULTILINE)
ROW = re.compile(r"^\| `test-([\w-]+)` \| (.*) \|$", re.MULTILINE)
SKIPPED = re.compile(r"^ *(\d+) (.+)$")
NOT_OWN = re.compile(r"make(\[\d+\])?: |=+ .+ =+$")
"""Beginning of a line that `make` itself prints, and the frame of a line of pytest's summary."""
OF_CALLER = {"ONLY", "ROWS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"}
"""Variables of `make proofs` that a proof must not get: its own `ONLY` would leave tests out."""
LONGEST = 400
"""Number of characters that the page keeps of a last line, and of the reasons of skips."""


@dataclass(frozen=True)
class Row:
    """What one run of a proof showed.

    Attributes:
        line: Last line of its output, after `failed: ` if its exit code was not 0.
        tree: First digits of the digest of the tree; empty if the proof never ran.
        day: Day of its end, UTC, such as `2026-11-29`.
        minutes: Duration, rounded up.
        machine: Cores, memory and architecture.
        skipped: Numbers of skipped tests with their reasons; empty if none was skipped.
    """

    line: str = "never run"
    tree: str = ""
    day: str = ""
    minutes: str = ""
    machine: str = ""
    skipped: str = ""

    @property
    def is_failed(self) -> bool:
        """Return True if the run failed."""
        return self.line.startswith("failed: ")

    @property
    def cells(self) -> str:
        """Return the row's cells for a Markdown table."""
        values = (self.line, self.tree, self.day, self.minutes, self.machine, self.skipped)
        return " | ".join(value.replace("|", "/").replace("\n", " ") for value in values)


def proofs(makefile: str) -> list[str]:
    """Return the names of the proofs of a Makefile, in its order."""
    return TARGET.findall(makefile)


def digest(root: Path) -> str:
    """Return the first 12 digits of the SHA-256 of a checkout's tracked files, without the page.

    Raises:
        SystemExit: A tracked file has changes that are not committed.
    """
    others = ["--", ".", f":!{PAGE}"]
    changed = git(root, "status", "--porcelain", "--untracked-files=no", *others)
    if changed:
        sys.exit(f"proofs: uncommitted changes in {changed.split()[1]}; commit them first")
    return hashlib.sha256(git(root, "ls-files", "-s", *others).encode()).hexdigest()[:12]


def git(root: Path, *arguments: str) -> str:
    """Return the output of a command of git."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def machine() -> str:
    """Return what a duration depends on: cores, memory and architecture."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"


def skips(output: str) -> str:
    """Return the reasons of skipped tests with their numbers, from pytest's output."""
    reasons = []
    for section in re.split(r"^=+ skipped, by reason =+$", output, flags=re.MULTILINE)[1:]:
        for line in section.lstrip("\n").splitlines():
            if (match := SKIPPED.match(line)) is None:
                break
            reasons.append(f"{match[1]}: {match[2]}")
    return "; ".join(reasons)[:LONGEST]


def run(root: Path, proof: str, tree: str) -> Row:
    """Run a proof, show its output, and return what it showed."""
    begun = time.monotonic()
    lines = []
    with subprocess.Popen(
        ["make", f"test-{proof}"],
        cwd=root,
        env={key: value for key, value in os.environ.items() if key not in OF_CALLER},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    printed = [line.strip() for line in lines if line.strip() and not NOT_OWN.match(line)]
    return Row(
        line=("failed: " if process.returncode else "") + (printed or ["no output"])[-1][:LONGEST],
        tree=tree,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        minutes=f"{(time.monotonic() - begun) / 60:.1f}",
        machine=machine(),
        skipped=skips("".join(lines)),
    )


def read(text: str) -> dict[str, Row]:
    """Return the rows of the page."""
    rows = {}
    for proof, cells in ROW.findall(text):
        rows[proof] = Row(*(cell.strip() for cell in f" {cells} ".split(" | ")))
    return rows


def summary(rows: Mapping[str, Row], tree: str) -> str:
    """Return the last line of the page and of the command."""
    current = [row for row in rows.values() if row.tree == tree]
    failed = sum(row.is_failed for row in current)
    whole = len(current) - failed
    return (
        f"proofs: {whole} of {len(rows)} whole at tree {tree}, {failed} failed, "
        f"{len(rows) - len(current)} older or never run"
    )


def written(rows: Mapping[str, Row], tree: str) -> str:
    """Return the text of the page."""
    table = "".join(f"| `test-{proof}` | {row.cells} |\n" for proof, row in rows.items())
    return f"{HEAD}{table}\n{summary(rows, tree)}\n"


def prove(root: Path, chosen: Sequence[str], *, run_all: bool = True) -> int:
    """Run the chosen proofs, and write the page; return the exit code of the command.

    Args:
        run_all: Whether all proofs run if none is chosen.
    """
    known = proofs((root / "Makefile").read_text(encoding="utf-8"))
    if unknown := sorted(set(chosen) - set(known)):
        sys.exit(f"proofs: no proof {unknown[0]}; there are {', '.join(known)}")
    chosen = chosen or (known if run_all else [])
    tree = digest(root) if chosen else "-"
    page = root / PAGE
    former = read(page.read_text(encoding="utf-8")) if page.exists() else {}
    rows = {proof: former.get(proof, Row()) for proof in known}
    page.write_text(written(rows, tree), encoding="utf-8")
    for proof in chosen:
        print(f"== test-{proof}", flush=True)
        rows[proof] = run(root, proof, tree)
        page.write_text(written(rows, tree), encoding="utf-8")
    print(summary(rows, tree))
    return 1 if any(rows[proof].is_failed for proof in chosen) else 0


def main() -> int:
    """Run the proofs that the command line names."""
    parser = argparse.ArgumentParser(prog="make proofs", description=__doc__.partition(":")[0])
    parser.add_argument("proofs", nargs="*", help="names without test-; all by default")
    parser.add_argument("--rows", action="store_true", help="run nothing; write each proof's row")
    options = parser.parse_args()
    return prove(ROOT, options.proofs, run_all=not options.rows)


if __name__ == "__main__":
    sys.exit(main())
