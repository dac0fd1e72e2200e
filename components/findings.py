"""Findings of an inspection: what differs, where, and who changed it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from policies.printable import printable, shortened

NAMED = 5
"""Names that a line spells out; the others are counted."""
LINES = 20
"""Lines that a Command gets; the others are counted."""
NOTHING = "none"
"""What a line says where there was nothing, or is nothing."""


class Kind(StrEnum):
    """What was found.

    `change`: what is desired isn't what was last applied; a person edited the stack.
    `drift`: what is observed isn't what was last applied; somebody else changed it.
    `due`: nothing differs, but a proof is missing or no longer holds.
    """

    CHANGE = "change"
    DRIFT = "drift"
    DUE = "due"


class Subject(StrEnum):
    """What a finding is about."""

    HOST = "host"
    NODE = "node"
    POOL = "pool"
    OBJECT = "object"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that differs, or that must be proved.

    Attributes:
        kind: which of the three it is.
        subject: what it is about; `name`: its name.
        what: what differs, such as ``label team``; of what is due the reason.
        was: what was last applied; empty: nothing.
        now: of a change what is desired, else what is observed; empty: nothing.
        first: nothing was ever applied to the subject.
    """

    kind: Kind
    subject: Subject
    name: str
    what: str
    was: str = ""
    now: str = ""
    first: bool = False

    @property
    def text(self) -> str:
        """What differs, without the subject: ``label team none → ml``."""
        if not self.was and not self.now:
            return self.what
        return f"{self.what} {self.was or NOTHING} → {self.now or NOTHING}"


Findings = tuple[Finding, ...]


def lines(findings: Iterable[Finding]) -> list[str]:
    """Return a line for each kind and text, with the names of all that it is about."""
    names: dict[tuple[Kind, Subject, str], list[str]] = {}
    for finding in findings:
        key = (finding.kind, finding.subject, finding.text)
        names.setdefault(key, []).append(finding.name)
    return [
        printable(f"{kind}: {subject} {_some(named)}: {text}")
        for (kind, subject, text), named in names.items()
    ]


def _some(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return shortened(distinct, NAMED)


def told(findings: Iterable[Finding]) -> str:
    """Return the input of a Command, in one line; two runs never have the same text."""
    every = lines(findings)
    more = [f"and {len(every) - LINES} more"] if len(every) > LINES else []
    return dated(printable("; ".join([*every[:LINES], *more])))


def dated(text: str) -> str:
    """Return a text with the time: two runs never have the same."""
    return f"{text} ({datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ})"
