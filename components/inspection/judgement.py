"""What was seen, held against what is declared: pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from components.drift import Drift, dated
from components.driver_daemonset.container import judge_all
from components.hosts import hardware
from components.hosts.facts import HostFacts, drift, reboot
from components.hosts.kernels import unequal
from components.hosts.preflight import judge
from components.inspection.ends import outlived
from components.inspection.questions import chart_place
from components.nodes.pools import validated_pools
from components.platforms.judge import judge as judge_platform
from components.platforms.needed import registries
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster
from config.printable import printable_lines
from config.problem import Fault, Severity

Json = dict[str, Any]

NAMED = 10
"""Nodes that have a line each; the others are counted."""


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


def judged(declared: Cluster, seen: Json, reasons: str, today: date | None = None) -> Inspection:
    """Hold what was seen against what is declared; `today` is this day where it is left out."""
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
    findings += _gone(declared, facts, cluster.get("nodes"))
    findings += _chart(declared, cluster.get("chart", ""))
    findings += map(_cordoned, cluster.get("unschedulable", []))
    findings += _deferred(cluster.get("deferred", {}))
    if "surroundings" in cluster:
        surroundings, members = cluster["surroundings"], cluster["members"]
        findings += judge_platform(declared, surroundings, members, facts)
    running = cluster.get("surroundings", {}).get("version", "")
    members = cluster.get("members", {})
    findings += outlived(declared, facts, running, members, today or date.today())
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
            unreached={name: host.error for name, host in facts.items() if host.error},
            prepare=_changed(facts, "prepare"),
            runtime=_changed(facts, "runtime"),
            cluster=_changed(facts, "cluster"),
            reboot=reboots,
            scheduling=noted(cluster["scheduling"]),
            validation=noted({**_after(declared, reboots), **cluster["validation"]}),
            platform=noted(cluster["presence"]).get("platform"),
            release=noted(cluster["presence"]).get("release"),
            groups=frozenset(cluster.get("surroundings", {}).get("groups", {})),
        ),
    )


def _gone(
    declared: Cluster, facts: Mapping[str, HostFacts], nodes: list[str] | None
) -> Iterator[Fault]:
    """Hosts that have joined, and whose nodes are gone; who never joined does it in this run."""
    if nodes is None:
        return
    phase = "cluster" if declared.first_host else "prepare"
    for host in declared.newcomers:
        if host.name in facts and phase in facts[host.name].applied and host.node not in nodes:
            yield Fault(
                f"host {host.name}: node {host.node}",
                f"no such node in the cluster ({len(nodes)} nodes), which this host has joined",
                "the node",
                "restart kubelet there, or take the host out of the stack and declare it again",
            )


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


def _deferred(held: Mapping[str, str]) -> Iterator[Fault]:
    """Yield a warning for each node with GPUs that wait for their holders; some are named."""
    for node, text in list(held.items())[:NAMED]:
        yield Fault(
            f"node {node}",
            text,
            "each GPU runs a kernel",
            f"when these have ended, run `make validate NODES={node}`",
            Severity.WARNING,
        )
    if (more := len(held) - NAMED) > 0:
        yield Fault(
            f"{more} more nodes",
            "GPUs not validated: held by pods",
            "each GPU runs a kernel",
            "when these have ended, run `make validate`",
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
