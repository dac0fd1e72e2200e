"""Inspects hosts and cluster before anything is declared: findings, never changes.

A process each for the cluster and the hosts, side by side, with the one library that each needs.
What they can't reach is reported and does not stop a preview; what contradicts the configuration
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi

from components.hosts.facts import HostFacts
from components.hosts.new_cluster import UNKNOWN, is_there
from components.hosts.table import table
from components.inspection.judgement import Inspection, judged
from components.inspection.processes import Extent, Processes
from components.inspection.questions import request
from components.inspection.rollout import divided, planned, show, show_layouts
from components.kubeconfig_contexts import missing_context
from components.settings.cluster import Cluster

Json = dict[str, Any]

RESTING = "in maintenance, not inspected"


def inspect(
    cluster: Cluster,
    stack: str,
    private_key: str,
    origins: Mapping[str, Mapping[str, str]],
    processes: Processes,
) -> Inspection:
    """Inspects hosts and cluster, and shows what a person should know of them.

    Args:
        cluster: the configuration.
        stack: name of the stack.
        private_key: logs in to the hosts. It goes through a pipe: it is in no process argument and
            in no file.
        origins: by host, the values that a pool or the host overrides (`inventory.origins`).
        processes: of `Extent.parts`, started early, for they read their libraries meanwhile. In a
            run that changes something the hosts' stays.

    Raises:
        RunError: something contradicts the configuration, or no kubeconfig has the context.
    """
    extent, there = Extent.wanted(), cluster.first_host is None or is_there(cluster)
    if there and "cluster" in extent.parts:
        require_context(cluster.kubernetes.context, stack)
    asked = request(cluster, stack, private_key)
    if not there:
        pulumi.log.info(UNKNOWN)
        del asked["cluster"]
    seen, reasons = look(processes, asked)
    inspection = judged(cluster, seen, reasons)
    inspection = replace(inspection, drift=replace(inspection.drift, context=there))
    if extent is not Extent.OFF and there:
        inspection = with_rollout(cluster, inspection, seen["cluster"]["cordoned"], extent)
        inspection = with_layouts(cluster, inspection, seen["cluster"]["layouts"])
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
    if inspection.problems:
        raise pulumi.RunError("\n".join(inspection.problems))
    return inspection


def require_context(context: str, stack: str) -> None:
    """Check that a kubeconfig has the context; no answer from its cluster is another matter.

    Raises:
        RunError: no kubeconfig has it; what to do differs for an embedded cluster.
    """
    fault = missing_context(context, f"Pulumi.{stack}.yaml")
    if fault and context == f"gpu-cluster-{stack}":
        fault = replace(fault, cure=f"run `make start STACK={stack}`, which starts this cluster")
    if fault:
        raise pulumi.RunError(str(fault))


def with_rollout(
    cluster: Cluster, inspection: Inspection, cordoned: list[str], extent: Extent
) -> Inspection:
    """The inspection with what must go in waves, which it shows."""

    def ask(asked: Json) -> tuple[Json, str]:
        if extent is not Extent.ALL:
            return {}, "the pods of nodes that change were not inspected"
        with Processes("rollout") as looking:
            seen, reason = looking.answers({"rollout": asked})
        return seen.get("rollout", {}), reason

    made, reason = planned(cluster, inspection.hosts, cordoned, ask)
    show(made)
    return replace(
        inspection,
        unreachable="; ".join(filter(None, (inspection.unreachable, reason))),
        drift=replace(inspection.drift, rollout=made),
    )


def with_layouts(cluster: Cluster, inspection: Inspection, found: Mapping[str, str]) -> Inspection:
    """The inspection with the MIG layouts that must go in waves, which it shows."""

    def ask(asked: Json) -> tuple[Json, str]:
        with Processes("rollout") as looking:
            seen, reason = looking.answers({"rollout": asked})
        return seen.get("rollout", {}), reason

    made, reason = divided(cluster, found, ask)
    show_layouts(made)
    return replace(
        inspection,
        unreachable="; ".join(filter(None, (inspection.unreachable, reason))),
        drift=replace(inspection.drift, layouts=made),
    )


def look(processes: Processes, asked: Json) -> tuple[Json, str]:
    """What the processes found, by part, and why one found nothing."""
    seen, reasons = processes.answers(asked)
    # Only a run that may change hosts copies to them.
    copies = asked["hosts"]["look"]["hosts"] and not pulumi.runtime.is_dry_run()
    processes.end(but=("hosts",) if copies else ())
    nothing: Json = {
        "cluster": {
            "problems": [], "cordoned": [], "scheduling": {}, "validation": {}, "presence": {},
            "layouts": {},
        },
        "hosts": {"problems": [], "facts": {}},
    }  # fmt: skip
    return {**nothing, **seen}, reasons
