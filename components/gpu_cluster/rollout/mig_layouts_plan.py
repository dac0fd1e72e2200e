"""Plan of MIG layout changes: which nodes change, in which order, and what blocks them. Pure.

This module imports no settings, because programs import it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpu_cluster.findings import Finding, Findings
from gpu_cluster.rollout.plan import View, blocked, node_words, wave_words
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_rules.printable import counted, printable, shortened

NAMED = 10
"""Maximum number of nodes without pods that a line names; other nodes are only counted."""


@dataclass(frozen=True)
class MigLayoutsPlan:
    """Plan of a run that changes MIG layouts.

    Attributes:
        changes: Finding that causes the change, by node
            (`gpu_cluster.rollout.mig_targets.MigTarget.difference`).
        views: Inspection results of these nodes, by name.
        at_once: Maximum number of nodes with pods that may be out of use at the same time.
    """

    changes: Mapping[str, Finding] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    at_once: int = 1

    @property
    def findings(self) -> Findings:
        """Return the findings about all nodes whose MIG layout changes."""
        return tuple(self.changes.values())

    @property
    def left(self) -> dict[str, str]:
        """Return the nodes that the run skips, with the reasons."""
        return {name: view.left for name, view in self.views.items() if view.left}

    @property
    def names(self) -> list[str]:
        """Return the nodes that the run changes; nodes with interrupted changes come first."""
        names = [name for name in self.changes if name not in self.left]
        return sorted(names, key=lambda name: (not self.view(name).begun, natural_order(name)))

    def view(self, name: str) -> View:
        """Return the inspection result of a node; an empty result if the node was not inspected."""
        return self.views.get(name, View())


def words(layouts_plan: MigLayoutsPlan) -> Iterable[str]:
    """Yield the lines of the plan for the preview."""
    for name, reason in layouts_plan.left.items():
        yield f"node {name} left alone: {printable(reason)}"
    if not layouts_plan.names:
        return
    idle = [name for name in layouts_plan.names if not layouts_plan.view(name).evicts]
    busy = [name for name in layouts_plan.names if layouts_plan.view(name).evicts]
    pods = sum(sum(layouts_plan.view(name).evicts.values()) for name in busy)
    yield (
        f"MIG layout of {counted(len(layouts_plan.names), 'node')}: {len(idle)} without pods, "
        f"{len(busy)} in waves, {counted(pods, 'pod')} evicted"
    )
    by_change: dict[str, list[str]] = {}
    for name in idle:
        by_change.setdefault(layouts_plan.changes[name].text, []).append(name)
    for change, names in by_change.items():
        yield f"without pods, {printable(change)}: {shortened(names, NAMED)}"
    yield from wave_words(list(filter(None, (busy[:1], busy[1:]))), layouts_plan.at_once)
    for name in busy:
        yield from node_words(name, layouts_plan.changes[name].text, layouts_plan.view(name))


def blockers(layouts_plan: MigLayoutsPlan) -> Iterable[str]:
    """Yield the reasons why the run that changes MIG layouts can't start."""
    for name in layouts_plan.names:
        yield from blocked(name, layouts_plan.view(name))
