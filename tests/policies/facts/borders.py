"""Names of tests of security floors."""

from __future__ import annotations

from policies.facts.floors import Floor


def name(entry: Floor) -> str:
    return f"{entry.bulletin}-{entry.part}-{entry.branch}"
