"""Plans of rollouts, computed from the hosts' reported settings and the pods on their nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.rollout import DesiredRollout
from gpu_cluster.findings import Finding
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.rollout.inspect import NodesSeen
from gpu_cluster.rollout.mig_layouts_plan import MigLayoutsPlan
from gpu_cluster.rollout.pending import changes
from gpu_cluster.rollout.plan import Plan, plan
from gpu_cluster.rollout.skew import ControlPlane
from gpu_rules.printable import printable_lines

Ask = Callable[[list[str]], NodesSeen]
"""Function that inspects nodes, given their names (`gpu_cluster.rollout.inspect.observe_nodes`)."""


def planned_rollout(
    hosts: Sequence[DesiredHost],
    rollout: DesiredRollout,
    facts: Mapping[str, HostFacts],
    cordoned: Collection[str],
    ask: Ask,
) -> tuple[Plan, str]:
    """Return the plan of the rollout, and a text if its nodes could not be inspected.

    If nothing changes, no node is inspected.

    Args:
        rollout: Settings for taking nodes out of use.
        facts: Facts of the inspected hosts, by name.
        cordoned: Nodes that an earlier run of this program left cordoned.
        ask: Inspects nodes.
    """
    pending = changes(hosts, facts, frozenset(cordoned))
    if not pending:
        return Plan(), ""
    nodes_seen = ask([change.host.node for change in pending])
    rollout_plan = plan(
        pending,
        nodes_seen.views,
        rollout.max_unavailable,
        rollout.boots,
        nodes_seen.server,
        _control_plane(hosts),
        nodes_seen.static_pods,
    )
    return rollout_plan, printable_lines(nodes_seen.unreachable)


def _control_plane(hosts: Sequence[DesiredHost]) -> ControlPlane | None:
    """Return the control plane that kubeadm upgrades; None if no upgrade is declared."""
    members = sorted(
        (host for host in hosts if host.upgrade.is_control_plane),
        key=lambda host: not host.upgrade.is_first,
    )
    version = members[0].sections.kubernetes_packages.version if members else None
    if version is None:
        return None
    return ControlPlane({host.node: host.name for host in members}, version)


def planned_mig_layouts(
    rollout: DesiredRollout, findings: Mapping[str, Finding], ask: Ask
) -> tuple[MigLayoutsPlan, str]:
    """Return the plan of MIG layout changes, and a text if its nodes could not be inspected.

    If no layout changes, no node is inspected.

    Args:
        rollout: Settings for taking nodes out of use.
        findings: Findings about nodes with another layout, by node.
        ask: Inspects nodes.
    """
    if not findings:
        return MigLayoutsPlan(), ""
    nodes_seen = ask(list(findings))
    layouts_plan = MigLayoutsPlan(dict(findings), nodes_seen.views, rollout.max_unavailable)
    return layouts_plan, printable_lines(nodes_seen.unreachable)
