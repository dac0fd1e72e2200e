"""Which nodes get another MIG layout, in which order, and what is in the way. Pure.

Imports no settings, as programs read it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from components.findings import Finding, Findings
from components.rollout.plan import View, blocked, counted, node_words, wave_words
from policies.printable import printable, shortened

NAMED = 10
"""Nodes without pods that a line names; the others are counted."""


@dataclass(frozen=True)
class MigLayoutsPlan:
    """What a run does with layouts.

    Attributes:
        changes: what is done, by node (`components.rollout.mig_targets.MigTarget.difference`).
        views: what was seen of these nodes.
        at_once: how many nodes with pods may be out of use together.
    """

    changes: Mapping[str, Finding] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    at_once: int = 1

    @property
    def findings(self) -> Findings:
        """All that was found."""
        return tuple(self.changes.values())

    @property
    def left(self) -> dict[str, str]:
        """Nodes that are left alone, and why."""
        return {name: view.left for name, view in self.views.items() if view.left}

    @property
    def names(self) -> list[str]:
        """Nodes that are changed, those first that an earlier run began."""
        names = [name for name in self.changes if name not in self.left]
        return sorted(names, key=lambda name: (not self.view(name).begun, name))

    def view(self, name: str) -> View:
        """What was seen of a node; nothing where it couldn't be."""
        return self.views.get(name, View())


def words(made: MigLayoutsPlan) -> Iterable[str]:
    """The plan as a person reads it in the preview."""
    for name, why in made.left.items():
        yield f"node {name} left alone: {printable(why)}"
    if not made.names:
        return
    idle = [name for name in made.names if not made.view(name).evicts]
    rest = [name for name in made.names if made.view(name).evicts]
    pods = sum(sum(made.view(name).evicts.values()) for name in rest)
    yield (
        f"MIG layout of {counted(len(made.names), 'node')}: {len(idle)} without pods, "
        f"{len(rest)} in waves, {counted(pods, 'pod')} evicted"
    )
    by_change: dict[str, list[str]] = {}
    for name in idle:
        by_change.setdefault(made.changes[name].text, []).append(name)
    for change, names in by_change.items():
        yield f"without pods, {printable(change)}: {shortened(names, NAMED)}"
    yield from wave_words(list(filter(None, (rest[:1], rest[1:]))), made.at_once)
    for name in rest:
        yield from node_words(name, made.changes[name].text, made.view(name))


def blockers(made: MigLayoutsPlan) -> Iterable[str]:
    """What stops the run before it begins."""
    for name in made.names:
        yield from blocked(name, made.view(name))
