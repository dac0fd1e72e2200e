"""Summary line of `make test-advice`: texts of errors, cures that were followed, causes.

Kinds of the marker `advice`:

- `cure`: rows of docs/reference/errors.md whose cure a test followed: the fault is gone, and no new
  one comes.
- `rule`: rules whose advice a test followed.
- `cause`: a situation whose true cause is named.
- `real`: a cause that a real kubelet, scheduler or controller reports.
- `several`: a test that counts several things itself.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.error_texts import Mark, errors
from tests.proofs.count import Count, Results, number_passed, number_skipped, of_all


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


def counting() -> Count:
    """Return the plugin that counts cures and causes."""
    return Count("advice", line)
