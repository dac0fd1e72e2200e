"""Inspects hosts and cluster before anything is declared: findings, never changes.

A process each for the cluster and the hosts, side by side, with the one library that each needs.
What they can't reach is reported and does not stop a preview; what contradicts the configuration
does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pulumi

from components.hosts.facts import HostFacts
from components.hosts.new_cluster import UNKNOWN, is_there
from components.hosts.table import table
from components.inspection.judgement import Inspection, judged
from components.inspection.processes import run
from components.inspection.questions import request
from components.inspection.rollout import divided, planned, show, show_layouts
from components.settings.cluster import Cluster

Json = dict[str, Any]

RESTING = "in maintenance, not inspected"

EXTENT = "GPU_CLUSTER_LOOK"
"""Variable that says what is inspected; without it hosts and cluster."""


class Extent(StrEnum):
    """What is inspected: ``cluster`` leaves the hosts alone, ``hosts`` the cluster."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"


def inspect(
    cluster: Cluster, stack: str, private_key: str, origins: Mapping[str, Mapping[str, str]]
) -> Inspection:
    """Inspects hosts and cluster, and shows what a person should know of them.

    Args:
        cluster: the configuration.
        stack: name of the stack.
        private_key: logs in to the hosts. It goes through a pipe: it is in no process argument and
            in no file.
        origins: by host, the values that a pool or the host overrides (`inventory.origins`).

    Raises:
        RunError: something contradicts the configuration.
    """
    asked = os.environ.get(EXTENT, Extent.ALL)
    if asked not in set(Extent):
        raise pulumi.RunError(
            f"{EXTENT}: found {asked!r}; wanted: {', '.join(Extent)}; cure: unset {EXTENT}"
        )
    extent, there = Extent(asked), cluster.first_host is None or is_there(cluster)
    if not there:
        pulumi.log.info(UNKNOWN)
        extent = {Extent.ALL: Extent.HOSTS, Extent.CLUSTER: Extent.OFF}.get(extent, extent)
    seen, reasons = look(extent, request(cluster, stack, private_key))
    inspection = judged(cluster, seen, reasons)
    inspection = replace(inspection, drift=replace(inspection.drift, context=there))
    if asked != Extent.OFF and there:
        inspection = with_rollout(cluster, inspection, seen["cluster"]["cordoned"], Extent(asked))
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


def with_rollout(
    cluster: Cluster, inspection: Inspection, cordoned: list[str], extent: Extent
) -> Inspection:
    """The inspection with what must go in waves, which it shows."""

    def ask(asked: Json) -> tuple[Json, str]:
        if extent is not Extent.ALL:
            return {}, "the pods of nodes that change were not inspected"
        seen, reason = run(("rollout",), {"rollout": asked})
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
        seen, reason = run(("rollout",), {"rollout": asked})
        return seen.get("rollout", {}), reason

    made, reason = divided(cluster, found, ask)
    show_layouts(made)
    return replace(
        inspection,
        unreachable="; ".join(filter(None, (inspection.unreachable, reason))),
        drift=replace(inspection.drift, layouts=made),
    )


def look(extent: Extent, asked: Json) -> tuple[Json, str]:
    """What the processes found, by part, and why one found nothing."""
    parts = {Extent.ALL: ("cluster", "hosts"), Extent.OFF: ()}.get(extent, (extent.value,))
    seen, reasons = run(parts, asked)
    nothing: Json = {
        "cluster": {
            "problems": [], "cordoned": [], "scheduling": {}, "validation": {}, "presence": {},
            "layouts": {},
        },
        "hosts": {"problems": [], "facts": {}},
    }  # fmt: skip
    return {**nothing, **seen}, reasons
