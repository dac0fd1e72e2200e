"""Nodes that must be validated, with the reasons. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from components.desired.validation import PoolValidation
from components.findings import Finding, Findings, Kind, Subject
from components.kubernetes.api import Json
from components.nodes import record
from components.nodes.inspect import shortfall
from components.validation.selection import is_asked

SHOWN = 60
"""Maximum number of characters of a fact's value in a finding."""


@dataclass(frozen=True, kw_only=True)
class ValidationDifference:
    """Findings about the validations of nodes.

    Attributes:
        pools: Findings by pool.
    """

    pools: Mapping[str, Findings] = field(default_factory=dict)

    @property
    def findings(self) -> Findings:
        """Return the findings of all pools."""
        return tuple(finding for found in self.pools.values() for finding in found)


def compare(node: Json, pool: PoolValidation, daemon_sets: list[Json]) -> Findings:
    """Return why a node's last validation is no longer valid; empty if it is valid.

    A node that comes from another pool keeps its validation: the new pool takes over the record.
    None of these findings is a drift, because a killed run of this stack may have caused the
    change.
    """
    name, kept = str(node["metadata"]["name"]), record.decode(node)
    if kept is None:
        return (due(name, "not validated", first=True),)
    if found := tuple(_facts(name, kept, record.facts(node, pool, daemon_sets))):
        return found
    if short := shortfall(node, pool.gpus, pool.resources):
        return (due(name, f"validated with other GPUs: {short}"),)
    return (due(name, "validation asked for"),) if is_asked(name) else ()


def _facts(name: str, kept: record.ValidationRecord, facts: dict[str, str]) -> Iterator[Finding]:
    for fact, was, now in record.changes(kept, facts):
        setting = fact.removeprefix(record.SETTINGS)
        if setting != fact:
            what, kind = setting, Kind.CHANGE
        else:
            what, kind = f"validated with another {fact}:", Kind.DUE
        yield Finding(
            kind=kind,
            subject=Subject.NODE,
            name=name,
            what=what,
            was=was[:SHOWN],
            now=now[:SHOWN],
        )


def due(node: str, why: str, *, first: bool = False) -> Finding:
    """Return the finding that a node must be validated."""
    return Finding(kind=Kind.DUE, subject=Subject.NODE, name=node, what=why, first=first)
