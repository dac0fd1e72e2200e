"""All rules with their CEL expressions and examples, and the functions that apply the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..context import Context, Severity
from . import own_rules
from .devices import with_devices
from .discovery import find
from .example import Example
from .exemptions import RULE_ID, Exemption, exemptions, finding, settled
from .observed import as_submitted
from .rule import Finding, Rule, Subject, Violation
from .twin import NoTwin, Twin
from .unknown import mapping, sequence, text

_ENTRIES: Final = find([str(Path(__file__).parent)], __name__.rpartition(".")[0])
RULES: Final[dict[str, Rule]] = {entry.rule.id: entry.rule for entry in _ENTRIES}
TWINS: Final[dict[str, Twin | NoTwin]] = {entry.rule.id: entry.twin for entry in _ENTRIES}
EXAMPLES: Final[dict[str, Example]] = {entry.rule.id: entry.example for entry in _ENTRIES}
GROUPS: Final[dict[str, str]] = {entry.rule.id: entry.group for entry in _ENTRIES}
"""The topic of each rule of this package."""


def add_rules(folder: Path) -> None:
    """Add user-defined rules from a folder (`own_rules`) to the rules of this package.

    Raises:
        RuleError: A module in the folder is not a rule.
    """
    global _last
    for entry in own_rules.load(folder):
        RULES[entry.rule.id] = entry.rule
        TWINS[entry.rule.id] = entry.twin
        EXAMPLES[entry.rule.id] = entry.example
    _last = (None, False, ())


def evaluate(
    manifest: Mapping[str, object], context: Context, *, partial: bool = False
) -> list[Violation]:
    """Return the violations of a manifest; a manifest of a kind that no rule checks has none.

    No content of the manifest makes this function raise an error. A `List` is checked item by item.

    Args:
        manifest: Plain data as in YAML, with `UNKNOWN` for values that are not known yet.
        partial: Whether the manifest has only some fields of the object, as a patch. Rules that
            report missing fields are then skipped.
    """
    return evaluate_objects(objects_of(manifest, context), context, partial=partial)


def objects_of(manifest: Mapping[str, object], context: Context) -> list[tuple[str, list[Subject]]]:
    """Return the path and the subjects of each object in a manifest; most manifests are one object.

    Args:
        manifest: Manifest as for `evaluate`.
    """
    return [(place, _subjects_of(item, context)) for place, item in items(manifest)]


def _subjects_of(item: Mapping[str, object], context: Context) -> list[Subject]:
    return Subject.all_of(as_submitted(item) if context.observed else item, context.namespace)


def evaluate_objects(
    objects: Sequence[tuple[str, list[Subject]]], context: Context, *, partial: bool = False
) -> list[Violation]:
    """Return the violations of the objects in a manifest, as `evaluate` does.

    Args:
        objects: Path and subjects of each object, from `objects_of`.
        partial: Whether the manifest has only some fields of the object.
    """
    if len(objects) > 1:
        context = with_devices(context, (subjects[0].manifest for _, subjects in objects))
    return [
        dataclasses.replace(violation, path=place + violation.path)
        for place, subjects in objects
        for violation in _judge_object(subjects, context, partial)
    ]


def evaluate_stack(manifests: Iterable[Mapping[str, object]], context: Context) -> list[Violation]:
    """Return the violations that only several manifests of a stack together show.

    Args:
        manifests: Manifests as for `evaluate`. This function does not run the rules of `evaluate`.
    """
    objects = (entry for manifest in manifests for entry in objects_of(manifest, context))
    return evaluate_together([subjects for _, subjects in objects], context)


def evaluate_together(objects: Sequence[Sequence[Subject]], context: Context) -> list[Violation]:
    """Return the violations of the objects of one or several stacks, as `evaluate_stack` does.

    Args:
        objects: Subjects of each object, from `objects_of`, with the name of their stack.
    """
    context = with_devices(context, (subjects[0].manifest for subjects in objects))
    subjects = [subject for subjects in objects for subject in subjects]
    subjects.sort(key=lambda subject: bool(subject.stack))
    return [
        _make_violation(rule, subject, finding, context, _exemption_by_rule(subject, context))
        for rule in RULES.values()
        if rule.across and _is_applicable(rule, context)
        for subject, finding in rule.across(subjects, context)
    ]


def items(manifest: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the manifests in a list with their paths, at any depth, or the manifest itself.

    For kubectl, each object with a list `items` is a list, whatever its kind is
    (k8s.io/apimachinery v0.34.4 pkg/apis/meta/v1/unstructured/helpers.go detectList). An object
    with `items` whose kind does not end in List is yielded too, because a program can declare such
    an object by its kind.
    """
    waiting: list[tuple[str, Mapping[str, object]]] = [("", manifest)]
    while waiting:
        place, current = waiting.pop()
        kind = text(current.get("kind"))
        listed = kind.endswith("List") and "items" in current
        if not listed:
            yield place, current
        item_kind = kind.removesuffix("List") if listed else ""
        # The items of a typed list such as PodList may leave out their kind.
        inherited = (
            {"apiVersion": current.get("apiVersion"), "kind": item_kind} if item_kind else {}
        )
        inner = [
            (f"{place}items[{index}].", {**inherited, **mapping(item)})
            for index, item in enumerate(sequence(current.get("items")))
        ]
        waiting += reversed(inner)


def _judge_object(
    subjects: Sequence[Subject], context: Context, partial: bool
) -> Iterator[Violation]:
    """Yield the violations of an object, each once, because its pods share fields."""
    seen: set[tuple[str, ...]] = set()
    for subject in subjects:
        for each in _judge_subject(subject, context, partial):
            key = (each.rule.id, each.container, each.path, each.found, each.wanted)
            if key not in seen:
                seen.add(key)
                yield each


def _judge_subject(subject: Subject, context: Context, partial: bool) -> Iterator[Violation]:
    lifted = _exemption_by_rule(subject, context)
    for rule in _applicable_rules(context, partial):
        if not rule.reads(subject.pod):
            continue
        findings: Iterable[Finding] = (
            map(finding, filter(_problem_of, _annotated_exemptions(subject, context)))
            if rule.id == RULE_ID
            else rule.check(subject, context)
        )
        for broken in findings:
            yield _make_violation(rule, subject, broken, context, lifted)


def _problem_of(exemption: Exemption) -> str:
    return exemption.problem


def _annotated_exemptions(subject: Subject, context: Context) -> Iterator[Exemption]:
    return exemptions(subject, context, RULES.__contains__)


def _exemption_by_rule(subject: Subject, context: Context) -> dict[str, Exemption]:
    """Return an object's exemption from each rule; the settings override annotations."""
    claimed = [*_annotated_exemptions(subject, context), *settled(subject, context)]
    return {exemption.rule_id: exemption for exemption in claimed}


def _is_applicable(rule: Rule, context: Context) -> bool:
    on = rule.severity_in(context) is not Severity.OFF
    return on and all(need.known(context) for need in rule.needs)


_last: tuple[Context | None, bool, tuple[Rule, ...]] = (None, False, ())


def _applicable_rules(context: Context, partial: bool) -> tuple[Rule, ...]:
    """Return the rules that apply to single manifests; cache the result for one context."""
    global _last
    last = _last
    if last[0] is not context or last[1] is not partial:
        rules = (rule for rule in RULES.values() if not (partial and rule.whole))
        last = _last = (context, partial, tuple(r for r in rules if _is_applicable(r, context)))
    return last[2]


def _make_violation(
    rule: Rule,
    subject: Subject,
    finding: Finding,
    context: Context,
    lifted: Mapping[str, Exemption],
) -> Violation:
    exemption = lifted.get(rule.id)
    exempt = str(exemption) if exemption and not exemption.problem else ""
    return Violation(
        rule=rule,
        severity=Severity.ADVISORY if exempt else rule.severity_of(finding, context),
        subject=subject.label,
        container=finding.container,
        path=finding.path,
        found=finding.found,
        wanted=finding.wanted,
        cure=finding.cure,
        exemption=exempt,
        stack=subject.stack,
    )
