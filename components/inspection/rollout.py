"""The rollout that a run would do: from what hosts say of themselves, and their nodes' pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pulumi

from components.hosts.facts import HostFacts
from components.hosts.settings.reboot import RebootWhen
from components.rollout import layout_plan
from components.rollout.inspect import NodesSeen
from components.rollout.layout_plan import LayoutPlan
from components.rollout.pending import changes
from components.rollout.plan import Plan, blockers, plan, words
from components.rollout.skew import ControlPlane
from components.settings.cluster import Cluster
from config.printable import printable_lines

Ask = Callable[[list[str]], NodesSeen]
"""Looks at nodes, by name (`components.rollout.inspect.observe`)."""


def planned(
    cluster: Cluster,
    facts: Mapping[str, HostFacts],
    cordoned: Collection[str],
    ask: Ask,
) -> tuple[Plan, str]:
    """Return the plan, and why it couldn't see the nodes; ask nothing where nothing changes.

    Args:
        cluster: the configuration.
        facts: what the hosts said.
        cordoned: nodes that an earlier run of this program cordoned.
        ask: looks at nodes.
    """
    found = changes(cluster, facts, frozenset(cordoned))
    if not found:
        return Plan(), ""
    seen = ask([change.host.node for change in found])
    may_boot = cluster.reboot.when is RebootWhen.REQUIRED
    first, version = cluster.first_host, cluster.kubernetes_packages.version
    made = plan(
        found,
        seen.views,
        cluster.rollout.max_unavailable,
        may_boot,
        seen.server,
        ControlPlane(first.name, version) if first and version else None,
    )
    return made, printable_lines(seen.unreachable)


def divided(cluster: Cluster, found: Mapping[str, str], ask: Ask) -> tuple[LayoutPlan, str]:
    """Return the plan for MIG layouts, and why it couldn't see the nodes; ask nothing without any.

    Args:
        cluster: the configuration.
        found: nodes with another layout, and what is done on each.
        ask: looks at nodes.
    """
    if not found:
        return LayoutPlan(), ""
    seen = ask(list(found))
    made = LayoutPlan(dict(found), seen.views, cluster.rollout.max_unavailable)
    return made, printable_lines(seen.unreachable)


def show_layouts(made: LayoutPlan) -> None:
    """Shows the plan for MIG layouts in the preview and in the run."""
    if lines := list(layout_plan.words(made)):
        pulumi.log.info("layouts\n" + "\n".join(lines))
    for blocker in layout_plan.blockers(made):
        pulumi.log.warn(blocker)


def show(made: Plan) -> None:
    """Shows the plan in the preview and in the run."""
    if lines := list(words(made)):
        pulumi.log.info("rollout\n" + "\n".join(lines))
    for blocker in blockers(made):
        pulumi.log.warn(blocker)
