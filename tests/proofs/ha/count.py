"""Summary line of `make test-ha`: what was done to three control planes of real components.

Kinds of the marker `ha`: `made`, `second`, `replaced`, `destroyed`; `kill`: a join that was killed;
`writes` and `pause`: confirmed writes of a client, and the longest time in seconds between two of
them, while a member was killed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.proofs.count import Count, Results, has_passed, of_all


def line(seen: Mapping[str, Results]) -> str:
    """Return the summary line without its first word; it has only what was done."""

    def passed(kind: str) -> bool:
        return kind in seen and all(map(has_passed, seen[kind].values()))

    parts = [
        "3 control planes made" if passed("made") else "3 control planes not made",
        *([f"{of_all(seen.get('kill', {}))} kills of a join healed"] if passed("made") else []),
        *(["second run 0 changes"] if passed("second") else []),
        *(["1 lost member joined again"] if passed("replaced") else []),
        *(["hosts as before"] if passed("destroyed") else []),
    ]
    if passed("writes"):
        confirmed = sum(map(int, (name.partition(" ")[0] for name in seen["writes"])))
        longest = max(map(float, seen["pause"]))
        parts.append(
            f"{len(seen['writes'])} of 3 members killed, 0 of {confirmed} confirmed writes lost, "
            f"longest pause {longest:.1f} s"
        )
    return ", ".join(parts)


def counting() -> Count:
    """Return the plugin that counts what was done to three control planes."""
    return Count("ha", line)
