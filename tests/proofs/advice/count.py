"""Summary line of `make test-advice`: texts of errors, cures that were followed, causes.

Kinds of the marker `advice`:

- `cure`: rows of docs/reference/errors.md whose cure a test followed: the fault is gone, and no new
  one comes.
- `rule`: rules whose advice a test followed.
- `cause`: a situation whose true cause is named.
- `real`: a cause that a real kubelet, scheduler or controller reports.
- `open`: an entry of `open.tsv` that a file needs.
- `several`: a test that counts several things itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.error_texts import Mark, errors
from tests.proofs.advice import documents
from tests.proofs.count import Count, Results, number_passed, number_skipped, of_all

OPEN = Path(__file__).parent / "open.tsv"
"""Cures of stack files that no test can follow."""


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; what was skipped shows nothing."""

    def of(kind: str) -> Results:
        return seen.get(kind, {})

    texts = errors()
    marks = [text.mark for text in texts]
    cures = marks.count(Mark.CURE)
    skipped = number_skipped(of("real"))
    return (
        f"of {len(texts)} texts {number_passed(of('cure'))} of {cures} cures followed, "
        f"{marks.count(Mark.OUTSIDE)} acts outside, {marks.count(Mark.NO_ACT)} need no act, "
        f"{marks.count(Mark.NONE)} without a mark, {of_all(of('rule'))} rules' advice followed, "
        f"{of_all(of('cause'))} causes, {number_passed(of('real'))} by real parts"
        f"{f' ({skipped} skipped)' if skipped else ''}"
    )


def open_cures() -> set[tuple[str, str]]:
    """Return the beginnings of what is wanted and of the cure, for cures that nobody followed."""
    lines = OPEN.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return {(wanted, cure) for wanted, cure in rows}


def stale(seen: Mapping[str, Results]) -> list[str]:
    """Return entries of `open.tsv` that no file needs any more, if the tests of all files ran."""
    ran = [test for tests in seen.get("several", {}).values() for test in tests]
    of_files = [test for test in ran if "/test_documents.py::" in test]
    if len(of_files) < 2 + len(documents.whole_documents()) + len(documents.SECTIONS):
        return []
    needed = set(seen.get("open", {}))
    return sorted("\t".join(entry) for entry in open_cures() if "\t".join(entry) not in needed)


def counting() -> Count:
    """Return the plugin that counts cures and causes."""
    return Count("advice", line, unneeded=stale)
