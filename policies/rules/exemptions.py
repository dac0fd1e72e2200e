"""Exemptions: an annotation that lifts one rule from one object, with a reason and an end.

`exempt.gpu-cluster/GPU022: "2027-03-31 the profiler needs all devices"`: until that day (included,
by UTC) what GPU022 finds is advice. It stands on the object, or on its pod template so that the
pods made from it carry it too. One that is over, or that names no rule, no day or no reason, lifts
nothing and is a violation itself.

At admission it holds only in a namespace that grants the rule, and no longer than the grant:
`grant.gpu-cluster/GPU022: "2027-06-30 asked for by team-a"`. Who reviews manifests before they are
applied sees the exemption itself, so the pack and the checker ask for no grant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

from .context import Context
from .rule import Finding, Subject
from .unknown import UNKNOWN, text

PREFIX: Final = "exempt.gpu-cluster/"
GRANT: Final = "grant.gpu-cluster/"
"""Begins the annotation of a namespace by which exemptions from a rule hold there at admission."""
RULE_ID: Final = "GPU062"
_FORM = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\s+(\S.*)", re.DOTALL)
_ID = re.compile(r"GPU[0-9]{3}")
_REASON_SHOWN = 120  # characters


@dataclass(frozen=True, slots=True)
class Exemption:
    """One annotation as it was read; `problem` says why it lifts nothing, empty where it does."""

    rule_id: str
    until: str
    reason: str
    problem: str

    def __str__(self) -> str:
        return f"until {self.until}: {self.reason}"


def exemptions(
    subject: Subject, context: Context, known: Callable[[str], bool]
) -> Iterator[Exemption]:
    """The exemptions of an object. `known`: whether a rule of that id is there."""
    for key, value in subject.annotations.items():
        if key.startswith(PREFIX) and value is not UNKNOWN:
            yield _read(key.removeprefix(PREFIX), value, context, known)


def _read(rule_id: str, value: object, context: Context, known: Callable[[str], bool]) -> Exemption:
    match = _FORM.fullmatch(text(value).strip())
    until, reason = (match[1], " ".join(match[2].split())[:_REASON_SHOWN]) if match else ("", "")
    problem = ""
    if not _ID.fullmatch(rule_id) or not known(rule_id) or rule_id == RULE_ID:
        problem = "names no rule that can be lifted"
    elif match is None:
        problem = "has no end date, or no reason"
    else:
        try:
            end = date.fromisoformat(until)
        except ValueError:
            return Exemption(rule_id, until, reason, f"ends on {until}, which isn't a day")
        if end < (context.today or datetime.now(UTC).date()):
            problem = f"ended on {until}"
    return Exemption(rule_id, until, reason, problem)


def finding(exemption: Exemption) -> Finding:
    """What is wrong with an exemption that lifts nothing."""
    return Finding(
        path=f"metadata.annotations[{PREFIX}{exemption.rule_id[:_REASON_SHOWN]}]",
        found=f"an exemption that {exemption.problem}",
        wanted='a rule id in the key, and a day and a reason such as "2030-12-31 why" as value',
        cure="Keep the rule and remove the annotation, or state anew until when and why not.",
    )
