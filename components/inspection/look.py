"""Inspects hosts and cluster before anything is declared: findings, never changes.

Both side by side, each within a time limit. What can't be reached is reported and does not stop a
preview; what contradicts the configuration does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import pulumi

from components.desired.host import working
from components.desired.resolve import Desired
from components.desired.rollout import DesiredRollout
from components.hosts.facts import HostFacts
from components.hosts.inspect import inspecting_key
from components.hosts.inspect import observe as observe_hosts
from components.hosts.kubeconfig import is_there
from components.hosts.new_cluster import UNKNOWN
from components.hosts.table import table
from components.inspection.bounds import bounded, completed
from components.inspection.cluster import ClusterSeen
from components.inspection.cluster import observe as observe_cluster
from components.inspection.extent import Extent
from components.inspection.judgement import Inspection, Seen, judged
from components.inspection.questions import question
from components.inspection.rollout import divided, planned, show, show_layouts
from components.platforms.needed import registries
from components.platforms.registry import platform_of
from components.rollout.inspect import NodesSeen
from components.rollout.inspect import observe as observe_nodes
from components.settings.cluster import Cluster
from policies.faults import FaultError

RESTING = "in maintenance, not inspected"


def inspect(
    cluster: Cluster,
    desired: Desired,
    private_key: str,
    origins: Mapping[str, Mapping[str, str]],
) -> Inspection:
    """Inspect hosts and cluster, and show what a person should know of them.

    Args:
        cluster: the configuration.
        desired: what it resolves to.
        private_key: logs in to the hosts.
        origins: by host, the values that a pool or the host overrides (`inventory.origins`).

    Raises:
        RunError: something contradicts the configuration.
    """
    extent, there = Extent.wanted(), desired.kubeadm is None or is_there(desired.context)
    if not there:
        pulumi.log.info(UNKNOWN)
    seen = look(cluster, desired, private_key, extent, there=there)
    inspection = judged(cluster, desired, seen)
    inspection = replace(inspection, drift=replace(inspection.drift, context=there))
    if extent is not Extent.OFF and there:
        inspection = with_rollout(desired, inspection, seen.cluster.cordoned, extent)
        inspection = with_layouts(desired, inspection, seen.cluster.layouts)
    _show(cluster, inspection, origins)
    if inspection.problems:
        raise pulumi.RunError("\n".join(inspection.problems))
    return inspection


def look(
    cluster: Cluster, desired: Desired, private_key: str, extent: Extent, *, there: bool
) -> Seen:
    """Look at hosts and cluster, side by side.

    Args:
        cluster: the configuration.
        desired: what it resolves to.
        private_key: logs in to the hosts.
        extent: what is looked at.
        there: whether the cluster exists.
    """
    hosts = working(desired.hosts) if extent.has_hosts else ()
    asked = question(cluster, desired) if extent.has_cluster and there else None
    problems: tuple[str, ...] = ()
    try:
        key = inspecting_key(private_key) if hosts else ""
    except FaultError as error:
        hosts, key, problems = (), "", (str(error),)

    beside = (cluster.validation, cluster.installer, cluster.monitoring)
    asking = registries(platform_of(cluster), *beside)

    async def every() -> Seen:
        (found, why), (facts, reason) = await asyncio.gather(
            bounded("cluster", observe_cluster(asked) if asked else _nothing(), ClusterSeen()),
            bounded("hosts", observe_hosts(hosts, key, registries=asking), {}),
        )
        reasons = "; ".join(filter(None, (why, reason)))
        return Seen(hosts=facts, cluster=found, problems=problems, reasons=reasons)

    return completed(every())


async def _nothing() -> ClusterSeen:
    return ClusterSeen()


def _show(
    cluster: Cluster, inspection: Inspection, origins: Mapping[str, Mapping[str, str]]
) -> None:
    resting = {
        host.name: HostFacts(error=RESTING)
        for host in cluster.hosts
        if cluster.in_maintenance(host)
    }
    if text := table(cluster.hosts, {**inspection.hosts, **resting}, origins):
        pulumi.log.info(f"hosts\n{text}")
    if cluster.maintenance:
        names = ", ".join(cluster.maintenance)
        pulumi.log.info(f"in maintenance, neither touched nor counted: {names}")
    for warning in inspection.warnings:
        pulumi.log.warn(warning)
    if inspection.unreachable:
        pulumi.log.warn(f"could not inspect everything: {inspection.unreachable}")


def with_rollout(
    desired: Desired, inspection: Inspection, cordoned: tuple[str, ...], extent: Extent
) -> Inspection:
    """Add what must go in waves, and show it."""
    ask = nodes_of(desired.rollout) if extent is Extent.ALL else _unseen
    made, reason = planned(desired.hosts, desired.rollout, inspection.hosts, cordoned, ask)
    show(made)
    return replace(
        inspection,
        unreachable="; ".join(filter(None, (inspection.unreachable, reason))),
        drift=replace(inspection.drift, rollout=made),
    )


def _unseen(_: list[str]) -> NodesSeen:
    return NodesSeen(unreachable="the pods of nodes that change were not inspected")


def with_layouts(desired: Desired, inspection: Inspection, found: Mapping[str, str]) -> Inspection:
    """Add the MIG layouts that must go in waves, and show them."""
    made, reason = divided(desired.rollout, found, nodes_of(desired.rollout))
    show_layouts(made)
    return replace(
        inspection,
        unreachable="; ".join(filter(None, (inspection.unreachable, reason))),
        drift=replace(inspection.drift, layouts=made),
    )


def nodes_of(rollout: DesiredRollout) -> Callable[[list[str]], NodesSeen]:
    """Return what looks at nodes that change, by name."""

    def ask(names: list[str]) -> NodesSeen:
        work = bounded(
            "rollout", observe_nodes(rollout.context, names, rollout.consent), NodesSeen()
        )
        seen, reason = completed(work)
        return replace(seen, unreachable=reason) if reason else seen

    return ask
