"""The rollout that a run would do: from what hosts say of themselves, and their nodes' pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pulumi

from components.desired.resolve import Desired
from components.hosts.facts import HostFacts
from components.hosts.settings.reboot import RebootWhen
from components.rollout import layout_plan
from components.rollout.layout_plan import LayoutPlan
from components.rollout.pending import changes
from components.rollout.plan import Plan, blockers, plan, view_of, words
from components.rollout.skew import ControlPlane
from components.settings.cluster import Cluster
from config.printable import printable_lines

Json = dict[str, Any]


def planned(
    cluster: Cluster,
    desired: Desired,
    facts: Mapping[str, HostFacts],
    cordoned: list[str],
    ask: Callable[[Json], tuple[Json, str]],
) -> tuple[Plan, str]:
    """The plan, and why it couldn't see the nodes; asks nothing where nothing changes.

    Args:
        cluster: the configuration.
        desired: what it resolves to.
        facts: what the hosts said.
        cordoned: nodes that an earlier run of this program cordoned.
        ask: inspects nodes, as `components.rollout.inspect.answer` does.
    """
    found = changes(desired.hosts, facts, frozenset(cordoned))
    if not found:
        return Plan(), ""
    answer, reason = ask(
        {
            "context": cluster.kubernetes.context,
            "nodes": [change.host.node for change in found],
            "consent": sorted(cluster.rollout.evict),
        }
    )
    views = {name: view_of(view) for name, view in answer.get("nodes", {}).items()}
    may_boot = cluster.reboot.when is RebootWhen.REQUIRED
    first, version = cluster.first_host, cluster.kubernetes_packages.version
    made = plan(
        found,
        views,
        cluster.rollout.max_unavailable,
        may_boot,
        answer.get("server", ""),
        ControlPlane(first.name, version) if first and version else None,
    )
    return made, printable_lines(answer.get("unreachable", "") or reason)


def divided(
    cluster: Cluster, found: Mapping[str, str], ask: Callable[[Json], tuple[Json, str]]
) -> tuple[LayoutPlan, str]:
    """The plan for MIG layouts, and why it couldn't see the nodes; asks nothing without any.

    Args:
        cluster: the configuration.
        found: nodes with another layout, and what is done on each.
        ask: inspects nodes, as `components.rollout.inspect.answer` does.
    """
    if not found:
        return LayoutPlan(), ""
    consent = sorted(cluster.rollout.evict)
    answer, reason = ask(
        {"context": cluster.kubernetes.context, "nodes": list(found), "consent": consent}
    )
    views = {name: view_of(view) for name, view in answer.get("nodes", {}).items()}
    made = LayoutPlan(dict(found), views, cluster.rollout.max_unavailable)
    return made, printable_lines(answer.get("unreachable", "") or reason)


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
