"""Findings of an inspection: differences between desired, last applied and observed state.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from policies.printable import printable, shortened

NAMED = 5
"""Maximum number of names that one line spells out; the line only counts the other names."""
LINES = 20
"""Maximum number of lines of findings in a Command's input; other lines are only counted."""
NOTHING = "none"
"""Word that a finding's text shows for an empty value."""


class Kind(StrEnum):
    """Kind of a finding.

    - `change`: the desired value is not the last applied value: a person edited the stack.
    - `drift`: the observed value is not the last applied value: somebody else changed it.
    - `due`: nothing differs, but a required check, such as the validation of a node, is missing or
      outdated.
    """

    CHANGE = "change"
    DRIFT = "drift"
    DUE = "due"


class Subject(StrEnum):
    """Type of the object that a finding is about: host, node, pool or Kubernetes object."""

    HOST = "host"
    NODE = "node"
    POOL = "pool"
    OBJECT = "object"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One difference from the desired state, or one check that must be repeated.

    Attributes:
        kind: Kind of the finding: change, drift or due.
        subject: Type of the object that differs.
        name: Name of the object that differs.
        what: Property that differs, such as `label team`; for the kind `due`, the reason.
        was: Last applied value. Empty: nothing was applied.
        now: Desired value of a change, observed value of a drift. Empty: no value.
        first: Whether nothing was ever applied to the object.
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
        """Return the difference without its node or host, such as `label team none → ml`."""
        if not self.was and not self.now:
            return self.what
        return f"{self.what} {self.was or NOTHING} → {self.now or NOTHING}"


Findings = tuple[Finding, ...]


def lines(findings: Iterable[Finding]) -> list[str]:
    """Return findings as lines; equal findings about several hosts or nodes share a line."""
    names: dict[tuple[Kind, Subject, str], list[str]] = {}
    for finding in findings:
        key = (finding.kind, finding.subject, finding.text)
        names.setdefault(key, []).append(finding.name)
    return [
        printable(f"{kind}: {subject} {shortened([*dict.fromkeys(named)], NAMED)}: {text}")
        for (kind, subject, text), named in names.items()
    ]


def told(findings: Iterable[Finding]) -> str:
    """Return findings as one line, for an input of a pulumi-command Command.

    The line contains the time, so that no two runs have the same input.
    """
    every = lines(findings)
    more = [f"and {len(every) - LINES} more"] if len(every) > LINES else []
    return dated(printable("; ".join([*every[:LINES], *more])))


def dated(text: str) -> str:
    """Return a text with the current time, so that a resource input differs in every run."""
    return f"{text} ({datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ})"
