"""All rules, and judging a manifest by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from policies.rules import (
    capacity,
    gpu_resources,
    namespace_limits,
    placement,
    tolerations,
    vcuda,
)
from policies.rules.context import Context, Severity
from policies.rules.rule import Need, Rule, Subject, Violation
from policies.rules.unknown import mapping, sequence, text

RULES: Final[Mapping[str, Rule]] = {
    rule.id: rule
    for rule in sorted(
        (
            *gpu_resources.RULES,
            *tolerations.RULES,
            *vcuda.RULES,
            *capacity.RULES,
            *namespace_limits.RULES,
            *placement.RULES,
        ),
        key=lambda rule: rule.id,
    )
}


def evaluate(
    manifest: Mapping[str, object], context: Context, *, partial: bool = False
) -> list[Violation]:
    """Judge a manifest by all rules that apply; kinds that no rule knows pass untouched.

    `manifest`: plain data as in YAML, `UNKNOWN` where a value is not known. A `List` is judged
    item by item. `partial`: only a part of the object, as in a patch, so that what is missing
    may be there. Raises nothing, whatever the manifest holds.
    """
    if text(manifest.get("kind")).endswith("List") and "items" in manifest:
        return [
            dataclasses.replace(violation, path=f"items[{index}].{violation.path}")
            for index, item in enumerate(sequence(manifest.get("items")))
            for violation in evaluate(_item(manifest, item), context, partial=partial)
        ]
    subject = Subject.of(manifest)
    return [
        violation
        for rule in RULES.values()
        for violation in _apply(rule, subject, context, partial)
    ]


def _item(manifest: Mapping[str, object], item: object) -> Mapping[str, object]:
    """An item of a typed list, which may leave its kind to the list's."""
    kind = text(manifest.get("kind")).removesuffix("List")
    inherited = {"apiVersion": manifest.get("apiVersion"), "kind": kind} if kind else {}
    return {**inherited, **mapping(item)}


def _apply(rule: Rule, subject: Subject, context: Context, partial: bool) -> Iterator[Violation]:
    severity = context.severities.get(rule.id, rule.severity)
    if severity is Severity.OFF or (partial and rule.whole):
        return
    if Need.POOLS in rule.needs and not context.pools:
        return
    label = "/".join(filter(None, (subject.namespace, subject.name)))
    for finding in rule.check(subject, context):
        yield Violation(
            rule=rule,
            severity=severity,
            subject=f"{subject.kind} {label}".strip(),
            container=finding.container,
            path=finding.path,
            found=finding.found,
            wanted=finding.wanted,
            cure=finding.cure,
        )
