"""Build findings of the inspection from short texts, for expected values in tests."""

from __future__ import annotations

from components.findings import Finding, Kind, Subject


def found(words: str, was: str = "", now: str = "", *, first: bool = False) -> Finding:
    """Return a finding from a text such as ``drift: node gpu-1: label team``."""
    kind, about, what = words.split(": ", 2)
    subject, name = about.split(" ", 1)
    return Finding(
        kind=Kind(kind),
        subject=Subject(subject),
        name=name,
        what=what,
        was=was,
        now=now,
        first=first,
    )
