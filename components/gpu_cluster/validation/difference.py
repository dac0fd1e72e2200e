"""Compare nodes with their validation records; report which nodes must be validated. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.kubernetes.api import Json
from gpu_cluster.nodes import record
from gpu_cluster.nodes.inspect import shortfall
from gpu_cluster.validation.selection import is_asked

SHOWN = 60
"""Maximum number of characters of a fact's value in a finding."""


@dataclass(frozen=True, kw_only=True)
class ValidationDifference:
    """Findings about nodes that must be validated, with the reason.

    Attributes:
        pools: Findings by the pool's name.
    """

    pools: Mapping[str, Findings] = field(default_factory=dict)

    @property
    def findings(self) -> Findings:
        """Return the findings of all pools."""
        return tuple(finding for pool_findings in self.pools.values() for finding in pool_findings)


def compare(node: Json, pool: PoolValidation, daemon_sets: list[Json]) -> Findings:
    """Return why a node's last validation is no longer valid; empty if it is valid.

    The last validation is recorded in an annotation of the Node. A node that was moved from
    another pool keeps its validation, because its new pool takes over this record. No finding is
    reported as drift, because an interrupted run of this stack may have caused the change.
    """
    name, validation = str(node["metadata"]["name"]), record.decode(node)
    if validation is None:
        return (due(name, "not validated", first=True),)
    findings = [*_compare_facts(name, validation, record.facts(node, pool, daemon_sets))]
    is_edited = any(finding.kind is Kind.CHANGE for finding in findings)
    if not is_edited and (short := shortfall(node, pool.gpus, pool.resources)):
        findings.append(due(name, f"validated with other GPUs: {short}", aspect=Aspect.REASON))
    if not findings and is_asked(name):
        findings.append(due(name, "validation asked for"))
    return tuple(findings)


def _compare_facts(
    name: str, validation: record.ValidationRecord, facts: dict[str, str]
) -> Iterator[Finding]:
    for fact, was, now in record.changes(validation, facts):
        setting = fact.removeprefix(record.SETTINGS)
        if setting != fact:
            aspect, key, kind = Aspect.SETTING, setting, Kind.CHANGE
        else:
            aspect, key, kind = Aspect.FACT, fact, Kind.DUE
        yield Finding(
            kind=kind,
            subject=Subject.NODE,
            name=name,
            aspect=aspect,
            key=key,
            was=was[:SHOWN],
            now=now[:SHOWN],
        )


def due(
    node: str, reason: str, *, first: bool = False, aspect: Aspect = Aspect.VALIDATION
) -> Finding:
    """Return the finding that a node must be validated."""
    return Finding(
        kind=Kind.DUE,
        subject=Subject.NODE,
        name=node,
        aspect=aspect,
        key=reason,
        first=first,
    )
