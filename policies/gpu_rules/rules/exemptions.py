"""Exemptions: an annotation exempts one object from one rule, with a reason and an end date.

With `exempt.gpu-cluster/GPU022: "2027-03-31 the profiler needs all devices"`, violations of GPU022
are only advice until the end of that day (UTC), which is at most some years away. The annotation is
set on the object, or on its pod template so that the pods get it too. An exemption that has ended,
or that lacks a known rule, a date or a reason, has no effect and is a violation itself.

An annotation of kube-linter or checkov that skips one check is read too, if it names a rule:
`ignore-check.kube-linter.io/GPU022: "the reason"` and `checkov.io/skip1: "GPU022=the reason"`.
These forms have no end date. An API server does not read them.

At admission, an exemption counts only in a namespace that grants it, and no longer than the grant:
`grant.gpu-cluster/GPU022: "2027-06-30 requested by team-a"`. The policy pack and the checker need
no grant, because whoever reviews the manifests sees the exemption.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Final

from ..context import Context, ExemptionFacts
from .host_paths import host_paths
from .rule import Finding, Subject
from .unknown import UNKNOWN, at, mapping, text

PREFIX: Final = "exempt.gpu-cluster/"
YEARS: Final = 5
"""Number of calendar years after the current one in which an exemption may end."""
GRANT: Final = "grant.gpu-cluster/"
"""Prefix of the annotation of a namespace that grants exemptions from a rule at admission."""
KUBE_LINTER: Final = "ignore-check.kube-linter.io/"
"""Prefix of kube-linter's annotation: its docs/configuring-kubelinter.md, v0.8.3."""
_CHECKOV: Final = re.compile(r"(?:checkov|bridgecrew)\.io/skip[0-9]*")
"""Keys of checkov's annotations: its checkov/kubernetes/kubernetes_utils.py."""
RULE_ID: Final = "GPU062"
_FORM = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\s+(\S.*)", re.DOTALL)
_ID = re.compile(r"GPU[0-9]{3}")
# Maximum number of characters of an exemption's reason that a message shows.
_REASON_SHOWN = 120
_KEY_SHOWN = len(PREFIX) + _REASON_SHOWN


@dataclass(frozen=True, slots=True)
class Exemption:
    """An exemption of an object.

    Attributes:
        until: The end date; empty for kube-linter's and checkov's annotations.
        problem: Why the exemption has no effect; empty if it has one.
        key: Key of the annotation; empty for an exemption in the settings.
    """

    rule_id: str
    until: str
    reason: str
    problem: str
    key: str = ""

    def __str__(self) -> str:
        """Return the end date, if there is one, and the reason, for a message."""
        return f"until {self.until}: {self.reason}" if self.until else f"by {self.reason}"


def exemptions(
    subject: Subject, context: Context, is_known_rule: Callable[[str], bool]
) -> Iterator[Exemption]:
    """Yield the exemptions in the annotations of an object.

    Args:
        subject: The object.
        context: Facts about the cluster, and the current date.
        is_known_rule: Function that returns whether a rule with the given id exists.
    """
    for key, value in subject.annotations.items():
        if value is UNKNOWN:
            continue
        if key.startswith(PREFIX):
            exemption = _read_exemption(key.removeprefix(PREFIX), value, context, is_known_rule)
            yield replace(exemption, key=key)
        elif skipped := _read_skip(key, text(value)):
            yield _judge_skip(key, *skipped, is_known_rule)


def settled(subject: Subject, context: Context) -> Iterator[Exemption]:
    """Yield the exemptions in the settings that apply to an object today."""
    today = context.today or datetime.now(UTC).date()
    for exemption_facts in context.exemptions:
        if exemption_facts.until >= today and _matches_exemption(subject, exemption_facts):
            for rule_id in sorted(exemption_facts.rules - {RULE_ID}):
                yield Exemption(
                    rule_id, exemption_facts.until.isoformat(), exemption_facts.reason, ""
                )


def _matches_exemption(subject: Subject, exemption: ExemptionFacts) -> bool:
    """Return whether an object matches all fields that an exemption sets."""
    pod = subject.pod
    space = subject.name if subject.kind == "Namespace" else subject.namespace
    own = mapping(at(subject.manifest, "metadata", "labels"))
    inner = mapping(at(pod.metadata, "labels")) if pod else {}
    if exemption.namespaces and not _matches_any(exemption.namespaces, space):
        return False
    if any(value not in (own.get(key), inner.get(key)) for key, value in exemption.labels.items()):
        return False
    if exemption.images:
        images = [
            text(container.spec.get("image")) for container in (pod.containers if pod else ())
        ]
        if not images or not all(_matches_any(exemption.images, image) for image in images):
            return False
    if exemption.host_paths:
        paths = [path for _, path in host_paths(pod)] if pod else []
        if not paths or not all(_matches_any(exemption.host_paths, path) for path in paths):
            return False
    return True


def pattern(globs: Iterable[str]) -> str:
    """Return the regular expression for a text that one of the patterns with `*` matches."""
    forms = (".*".join(map(re.escape, glob.split("*"))) for glob in globs)
    return f"^({'|'.join(forms)})$"


def _matches_any(globs: Iterable[str], value: str) -> bool:
    return any(is_match(glob, value) for glob in globs)


def is_match(glob: str, value: str) -> bool:
    """Return whether a pattern with `*` matches a text, as `pattern` does in CEL.

    Python's `re` would try each way to share the text among several `*`. In the regular expressions
    of CEL `.` matches no end of a line.
    """
    first, *later_parts = glob.split("*")
    if not later_parts or "\n" in value:
        return glob == value
    *inner, last = later_parts
    if len(value) < len(first) + len(last):
        return False
    if not value.startswith(first) or not value.endswith(last):
        return False
    start, end = len(first), len(value) - len(last)
    for middle in inner:
        start = value.find(middle, start, end)
        if start < 0:
            return False
        start += len(middle)
    return True


def _read_skip(key: str, value: str) -> tuple[str, str] | None:
    """Return rule and reason of kube-linter's or checkov's annotation, or None for their checks."""
    if key.startswith(KUBE_LINTER):
        rule_id, reason = key.removeprefix(KUBE_LINTER), value
    elif _CHECKOV.fullmatch(key):
        rule_id, _, reason = value.partition("=")
    else:
        return None
    return (rule_id.strip(), reason) if _ID.fullmatch(rule_id.strip()) else None


def _judge_skip(
    key: str, rule_id: str, reason: str, is_known_rule: Callable[[str], bool]
) -> Exemption:
    reason = " ".join(reason.split())[:_REASON_SHOWN]
    problem = "" if reason else "has no reason"
    if not is_known_rule(rule_id) or rule_id == RULE_ID:
        problem = "names no rule that can be turned off"
    return Exemption(rule_id, "", reason, problem, key)


def _read_exemption(
    rule_id: str, value: object, context: Context, is_known_rule: Callable[[str], bool]
) -> Exemption:
    match = _FORM.fullmatch(text(value).strip())
    until, reason = (match[1], " ".join(match[2].split())[:_REASON_SHOWN]) if match else ("", "")
    problem = ""
    if not _ID.fullmatch(rule_id) or not is_known_rule(rule_id) or rule_id == RULE_ID:
        problem = "names no rule that can be turned off"
    elif match is None:
        problem = "has no end date, or no reason"
    else:
        try:
            end = date.fromisoformat(until)
        except ValueError:
            return Exemption(rule_id, until, reason, f"ends on {until}, which isn't a date")
        today = context.today or datetime.now(UTC).date()
        if end < today:
            problem = f"ended on {until}"
        elif end.year > today.year + YEARS:
            problem = f"ends on {until}, in more than {YEARS} years"
    return Exemption(rule_id, until, reason, problem)


def finding(exemption: Exemption) -> Finding:
    """Return the finding for an exemption that has no effect."""
    return Finding(
        path=f"metadata.annotations[{exemption.key[:_KEY_SHOWN]}]",
        found=f"an exemption that {exemption.problem}",
        wanted='a rule id in the key, and a date and a reason such as "2030-12-31 why" as value'
        if exemption.key.startswith(PREFIX)
        else "the id of a rule, and a reason",
        cure="Remove the annotation, or write a new end date and reason."
        if exemption.key.startswith(PREFIX)
        else "Remove the annotation, or write a rule's id and a reason.",
    )
