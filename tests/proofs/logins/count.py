"""Summary line of `make test-logins`: failed logins, healed logins, hand-overs, first messages.

Kinds of the marker `logins`:

- `situation`: a login that fails on a real sshd; the message names its stage.
- `healed`: a login that fails once and works at another try.
- `handover`: names of `HANDOVERS`. The marks that a refusal names are all that go.
- `several`: a test that shows several things and counts each itself.
- `message`: a message that a person meets first; what counts stands within its first lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.count import Count, Results, number_passed, number_skipped, of_all

HANDOVERS = ("Argo CD by annotation", "Argo CD by label", "Flux", "Fleet")
"""Programs that deliver software, each with its way to mark what it delivers."""


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; a skipped test shows nothing."""

    def of(kind: str) -> Results:
        return seen.get(kind, {})

    skipped = number_skipped(of("situation"))
    return (
        f"{of_all(of('situation'))} situations named by their stage"
        f"{f' ({skipped} skipped)' if skipped else ''}, {number_passed(of('healed'))} healed by a "
        f"second try, {number_passed(of('handover'))} of {len(HANDOVERS)} hand-overs, "
        f"{of_all(of('message'))} first messages within three lines"
    )


def counting() -> Count:
    """Return the plugin that counts failed logins and first messages."""
    return Count("logins", line)
