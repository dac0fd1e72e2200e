"""Inspects hosts and cluster before anything is declared: findings, never changes.

A process each for the cluster and the hosts, side by side, with the one library that each needs.
What they can't reach is reported and does not stop a preview; what contradicts the configuration
does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pulumi

from components.charts.source import location, wanted_digest
from components.drift import Drift, dated
from components.driver_daemonset.container import judge_all
from components.hosts import hardware
from components.hosts.facts import HostFacts, drift, reboot
from components.hosts.kernels import unequal
from components.hosts.new_cluster import UNKNOWN, is_there
from components.hosts.preflight import judge
from components.hosts.table import table
from components.inspection.rollout import divided, planned, show, show_layouts
from components.nodes.pools import scheduling_document, validated_pools
from components.platforms.documents import presence_document
from components.platforms.judge import judge as judge_platform
from components.platforms.namespaces import own_namespaces
from components.platforms.needed import registries
from components.platforms.registry import platform_of
from components.rollout.layout_component import nodes_document
from components.settings.cluster import Cluster
from components.validation.document import validation_document
from config.printable import printable_lines
from config.problem import Fault, Severity

Json = dict[str, Any]

LIMIT = 60
"""Seconds for the whole inspection; what answers later counts as not reached."""

RESTING = "in maintenance, not inspected"

EXTENT = "GPU_CLUSTER_LOOK"
"""Variable that says what is inspected; without it hosts and cluster."""


class Extent(StrEnum):
    """What is inspected: ``cluster`` leaves the hosts alone, ``hosts`` the cluster."""

    ALL = "all"
    CLUSTER = "cluster"
    HOSTS = "hosts"
    OFF = "off"


@dataclass(frozen=True)
class Inspection:
    """What was found.

    Attributes:
        unreachable: what was not seen, and why; empty when all was.
        hosts: what the probe found, by host.
        problems: what contradicts the configuration and must stop the run.
        warnings: what will probably do harm.
        drift: what differs from what is declared.
    """

    unreachable: str = ""
    hosts: Mapping[str, HostFacts] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    drift: Drift = field(default_factory=Drift)


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


def request(cluster: Cluster, stack: str, private_key: str) -> Json:
    """What the processes are asked: ``cluster``, the arguments of
    `components.inspection.cluster.observe`, and ``hosts``."""
    return {
        "cluster": {
            "context": cluster.kubernetes.context,
            "scheduling": [scheduling_document(cluster, pool, stack) for pool in cluster.pools],
            "validation": [
                validation_document(cluster, pool, stack) for pool in validated_pools(cluster)
            ],
            "presence": presence_document(cluster),
            "endpoints": sorted(platform_of(cluster).endpoints(cluster).values()),
            "own": [space.name for space in own_namespaces(cluster)],
            "chart": chart_document(cluster),
            "layouts": nodes_document(cluster, stack),
        },
        "hosts": {
            "hosts": [host.model_dump(mode="json") for host in cluster.working_hosts],
            "privateKey": private_key,
            "registries": registries(cluster),
        },
    }


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


def run(parts: tuple[str, ...], asked: Json) -> tuple[Json, str]:
    """What a process for each part found, and why one found nothing."""
    processes = {part: _start(part) for part in parts}
    for part, process in processes.items():
        _ask(process, asked[part])
    seen: Json = {}
    deadline, reasons = time.monotonic() + LIMIT, []
    for part, process in processes.items():
        try:
            output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            reasons.append(f"the inspection of the {part} took longer than {LIMIT} s")
            continue
        if process.returncode == 0:
            seen[part] = json.loads(output)
            continue
        last = errors.strip().splitlines()[-1:] or ["no message"]
        reasons.append(f"the inspection of the {part} failed: {last[0]}")
    return seen, "; ".join(reasons)


def _start(part: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "components.inspection", part],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ask(process: subprocess.Popen[str], asked: Json) -> None:
    """Gives a process its request, and the end of its input, which `communicate` won't find."""
    pipe = process.stdin
    if pipe is None:
        return
    try:
        json.dump(asked, pipe)
        pipe.close()
    except BrokenPipeError:
        pass  # it has ended, and its exit says why
    process.stdin = None


def judged(declared: Cluster, seen: Json, reasons: str) -> Inspection:
    """Holds what was seen against what is declared."""
    cluster = seen["cluster"]
    facts = {name: HostFacts(**host) for name, host in seen["hosts"]["facts"].items()}
    findings = [
        finding
        for host in declared.hosts
        if host.name in facts
        for finding in judge(host, facts[host.name], declared.of(host))
    ]
    findings += judge_all(declared, facts)
    findings += hardware.advice(facts)
    findings += _unreached(declared, facts)
    findings += _chart(declared, cluster.get("chart", ""))
    findings += map(_cordoned, cluster.get("unschedulable", []))
    if "surroundings" in cluster:
        surroundings, members = cluster["surroundings"], cluster["members"]
        findings += judge_platform(declared, surroundings, members, facts)
    errors = [str(finding) for finding in findings if finding.severity is Severity.ERROR]
    warnings = [str(finding) for finding in findings if finding.severity is Severity.WARNING]
    reboots = {
        host.name: text
        for host in declared.hosts
        if host.name in facts
        and (text := reboot(facts[host.name], host.node in cluster["cordoned"]))
    }
    return Inspection(
        unreachable=printable_lines("; ".join(filter(None, (cluster.get("unreachable"), reasons)))),
        hosts=facts,
        problems=_printable(*cluster["problems"], *seen["hosts"]["problems"], *errors),
        warnings=_printable(*warnings, *unequal(declared, facts)),
        drift=Drift(
            prepare=_changed(facts, "prepare"),
            runtime=_changed(facts, "runtime"),
            cluster=_changed(facts, "cluster"),
            reboot=reboots,
            scheduling=noted(cluster["scheduling"]),
            validation=noted({**_after(declared, reboots), **cluster["validation"]}),
            platform=noted(cluster["presence"]).get("platform"),
            groups=frozenset(cluster.get("surroundings", {}).get("groups", {})),
        ),
    )


def chart_place(cluster: Cluster) -> str:
    """Where the platform's chart is fetched from."""
    platform = platform_of(cluster)
    version = platform.version(cluster)
    return location(cluster.charts, platform.chart, platform.repository, version)


def chart_document(cluster: Cluster) -> dict[str, str]:
    """Input of `components.charts.reach`: the chart's place, and what it must be there."""
    platform = platform_of(cluster)
    version = platform.version(cluster)
    return {
        "place": chart_place(cluster),
        "chart": platform.chart,
        "version": version,
        "digest": wanted_digest(cluster.charts, platform.chart, platform.repository, version),
    }


def _chart(cluster: Cluster, problem: str) -> Iterator[Fault]:
    if problem:
        platform = platform_of(cluster)
        yield Fault(
            f"chart {platform.chart} {platform.version(cluster)}",
            problem,
            f"the chart, from {chart_place(cluster)}, before a host is changed",
            "open the way (HTTPS_PROXY is obeyed), or declare charts.directory or charts.oci; "
            "`make images` says how to compare an archive",
        )


def _unreached(cluster: Cluster, facts: Mapping[str, HostFacts]) -> Iterator[Fault]:
    """An engine may have a mirror or a proxy of its own, so this stops nothing."""
    workers = {host.name for host in cluster.hosts if host.role.has_gpus}
    for registry in registries(cluster):
        hosts = [name for name in facts if name in workers and registry in facts[name].unreached]
        if hosts:
            yield Fault(
                hardware.place(hosts),
                f"no answer from {registry}",
                "the registry of images that GPU pods need",
                "open the way, declare registry.mirror, or go on where the engine has a mirror",
                Severity.WARNING,
            )


def _cordoned(node: str) -> Fault:
    """What somebody else withdrew stays withdrawn: who did it knows why."""
    return Fault(
        f"node {node}",
        "cordoned, not by this program",
        "a node that takes pods: until then none of its GPUs is validated or used",
        f"`kubectl uncordon {node}` when the work on it is done",
        Severity.WARNING,
    )


def _after(declared: Cluster, reboots: Mapping[str, str]) -> dict[str, str]:
    """Pools whose nodes this run reboots: what was proved before says nothing of them then."""
    nodes = {host.node: host.name for host in declared.hosts if host.name in reboots}
    return {
        pool.name: f"{', '.join(rebooted)}: rebooted by this run"
        for pool in validated_pools(declared)
        if (rebooted := [name for name in pool.node_names() if name in nodes])
    }


def _printable(*texts: str) -> tuple[str, ...]:
    return tuple(map(printable_lines, texts))


def _changed(facts: Mapping[str, HostFacts], phase: str) -> dict[str, str]:
    return {name: text for name, host in facts.items() if (text := drift(host, phase))}


def noted(findings: Mapping[str, str]) -> dict[str, str]:
    """Findings, each dated."""
    return {name: dated(finding) for name, finding in findings.items()}
