"""The rollout that a run would do: from what hosts say of themselves, and their nodes' pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import pulumi

from components.desired.host import DesiredHost, Upgrade
from components.desired.rollout import DesiredRollout
from components.findings import Finding
from components.host_facts import HostFacts
from components.rollout.inspect import NodesSeen
from components.rollout.mig_layouts_plan import MigLayoutsPlan
from components.rollout.pending import changes
from components.rollout.plan import Plan, plan
from components.rollout.skew import ControlPlane
from policies.printable import printable_lines

Ask = Callable[[list[str]], NodesSeen]
"""Looks at nodes, by name (`components.rollout.inspect.observe_nodes`)."""


def planned_rollout(
    hosts: Sequence[DesiredHost],
    rollout: DesiredRollout,
    facts: Mapping[str, HostFacts],
    cordoned: Collection[str],
    ask: Ask,
) -> tuple[Plan, str]:
    """Return the plan, and why it couldn't see the nodes; ask nothing where nothing changes.

    Args:
        hosts: the hosts of the stack.
        rollout: how nodes are taken out of use.
        facts: what the hosts said.
        cordoned: nodes that an earlier run of this program cordoned.
        ask: looks at nodes.
    """
    found = changes(hosts, facts, frozenset(cordoned))
    if not found:
        return Plan(), ""
    seen = ask([change.host.node for change in found])
    made = plan(
        found,
        seen.views,
        rollout.max_unavailable,
        rollout.boots,
        seen.server,
        _control_plane(hosts),
    )
    return made, printable_lines(seen.unreachable)


def _control_plane(hosts: Sequence[DesiredHost]) -> ControlPlane | None:
    """Return the control plane that kubeadm upgrades; None if it upgrades none here."""
    for host in hosts:
        if host.upgrade is Upgrade.APPLY and host.sections.kubernetes_packages.version:
            return ControlPlane(host.name, host.sections.kubernetes_packages.version)
    return None


def planned_mig_layouts(
    rollout: DesiredRollout, found: Mapping[str, Finding], ask: Ask
) -> tuple[MigLayoutsPlan, str]:
    """Return the plan for MIG layouts, and why it couldn't see the nodes; ask nothing without any.

    Args:
        rollout: how nodes are taken out of use.
        found: nodes with another layout, and what is done on each.
        ask: looks at nodes.
    """
    if not found:
        return MigLayoutsPlan(), ""
    seen = ask(list(found))
    made = MigLayoutsPlan(dict(found), seen.views, rollout.max_unavailable)
    return made, printable_lines(seen.unreachable)


def show(title: str, words: Iterable[str], blockers: Iterable[str]) -> None:
    """Show a plan in the preview and in the run."""
    if lines := list(words):
        pulumi.log.info(f"{title}\n" + "\n".join(lines))
    for blocker in blockers:
        pulumi.log.warn(blocker)
