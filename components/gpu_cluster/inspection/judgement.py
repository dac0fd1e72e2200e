"""Checks of the inspected state against the settings. Pure functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from gpu_cluster.base.stack_option import stack_option
from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.pool import PoolScheduling
from gpu_cluster.desired.resolve import Desired
from gpu_cluster.desired.validation import PoolValidation
from gpu_cluster.driver_daemonset.container import judge_all
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.difference import compare
from gpu_cluster.hosts.observed import hardware
from gpu_cluster.hosts.preflight import unequal, validate_host
from gpu_cluster.inspection import moves, overruled, removed, surplus
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.inspection.ends import HOSTNAME, outlived, outlived_chart
from gpu_cluster.inspection.losses import LossesSeen
from gpu_cluster.inspection.misfits import misfits
from gpu_cluster.inspection.observed_cluster import ClusterSeen
from gpu_cluster.inspection.upgrade_path import unsupported_kubernetes
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.nodes.difference import declared_gpus
from gpu_cluster.platforms.validate_cluster import validate_cluster
from gpu_cluster.release.clear import foreign_release
from gpu_cluster.rollout.pending import replaced_engines
from gpu_cluster.settings.nodes.node_range import ranges
from gpu_cluster.validation.difference import ValidationDifference, due
from gpu_cluster.validation.health import NodeHealth
from gpu_rules.faults import Fault, FaultSeverity
from gpu_rules.printable import counted, printable_lines, shortened

NAMED = 10
"""Maximum number of nodes that get a line each; the other nodes are only counted."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Inspected state, before it is checked.

    Attributes:
        hosts: Facts of the inspected hosts, by name.
        cluster: State of the cluster.
        recorded: Names of the hosts that an earlier run prepared.
        lacks_release: Whether the stack's state is known and has no Helm release of the platform.
        problems: Problems that prevented the inspection and must stop the run.
        reasons: Reasons why a part of the inspection has no result.
    """

    hosts: Mapping[str, HostFacts] = field(default_factory=dict)
    cluster: ClusterSeen = field(default_factory=ClusterSeen)
    recorded: tuple[str, ...] = ()
    lacks_release: bool = False
    problems: tuple[str, ...] = ()
    reasons: str = ""


@dataclass(frozen=True)
class Inspection:
    """Result of the inspection.

    Attributes:
        unreachable: Parts that could not be inspected, with the reason. Empty: all parts were
            inspected.
        hosts: Facts of the inspected hosts, by name.
        problems: Faults that must stop the run, such as a host that contradicts the stack file.
        warnings: Problems that don't stop the run but will probably do harm.
        drivers: Version of the loaded driver by node, as GPU Feature Discovery reports it.
        difference: Differences from the desired and the last applied state, and nodes that must
            be validated.
        health: GPUs of each validated node.
    """

    unreachable: str = ""
    hosts: Mapping[str, HostFacts] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    drivers: Mapping[str, str] = field(default_factory=dict)
    difference: Difference = field(default_factory=Difference)
    health: tuple[NodeHealth, ...] = ()


def judged(desired: Desired, observed: Seen, today: date | None = None) -> Inspection:
    """Check the inspected state against the desired state, and return the inspection's result.

    Args:
        desired: Desired state.
        observed: Inspected state.
        today: Date for end-of-support checks. None: the current date.
    """
    cluster, facts = observed.cluster, observed.hosts
    findings = [
        finding
        for host in desired.hosts
        if host.name in facts
        for finding in validate_host(host, facts[host.name])
    ]
    findings += judge_all(desired.hosts, facts)
    findings += misfits(
        desired.platform,
        desired.nodes,
        _kernels_elsewhere(cluster.kernels, desired.hosts, desired.scheduling.pools),
    )
    findings += hardware.warnings(facts)
    endpoints = desired.platform.endpoints() if desired.has_platform else {}
    findings += _check_endpoints(endpoints, desired.hosts, facts)
    registries = [each for each in desired.registries if each not in endpoints.values()]
    findings += _check_registries(registries, desired.hosts, facts)
    findings += _check_lost_nodes(desired.newcomers, facts, cluster.nodes)
    findings += _check_chart(desired.chart, cluster.chart)
    release, is_adopted = desired.presence.release, desired.platform.installation.is_adopted
    if observed.lacks_release and cluster.platform.is_upgraded and release and not is_adopted:
        findings.append(foreign_release(release))
    findings += (
        _cordoned_warning(node, cluster.cordoners.get(node, "")) for node in cluster.unschedulable
    )
    if desired.has_platform:
        findings += _kept_layouts(cluster.kept_layouts, desired.platform.site.platform)
        findings += overruled.warnings(cluster.overruled)
        findings += overruled.operand_warnings(cluster.edited_operands)
    findings += _warn_of_deferred(cluster.deferred, desired.stack)
    if cluster.surroundings is not None and desired.has_platform:
        findings += validate_cluster(
            desired.platform, cluster.surroundings, cluster.members, facts, desired.wanted
        )
    running = cluster.surroundings.version if cluster.surroundings else ""
    findings += moves.warnings(cluster.validation, running)
    if desired.has_platform:
        platform = desired.platform
        findings += unsupported_kubernetes(platform.chart, platform.version, running)
        findings += outlived_chart(platform.chart, platform.version, today or date.today())
    gone = removed.removed_hosts(observed.recorded, desired.hosts, cluster.prepared)
    findings += removed.faults(
        gone, desired.hosts, desired.validation, _member_names(cluster.members)
    )
    if cluster.scheduling is not None and desired.has_validation:
        pools = desired.platform.site.pools
        findings += surplus.faults(cluster.scheduling.nodes, desired.validation, pools)
    findings += outlived(
        desired.context,
        desired.nodes,
        desired.hosts,
        facts,
        running,
        cluster.members,
        today or date.today(),
    )
    errors = [str(finding) for finding in findings if finding.severity is FaultSeverity.ERROR]
    warnings = [str(finding) for finding in findings if finding.severity is FaultSeverity.WARNING]
    differing = compare(desired.hosts, desired.kubeadm, facts, cluster.cordoned, cluster.prepared)
    undone = {**differing.prepare, **removed.findings(gone)}
    differing = replace(differing, prepare=undone)
    return Inspection(
        unreachable=printable_lines(
            "; ".join(filter(None, (cluster.unreachable, observed.reasons)))
        ),
        hosts=facts,
        problems=_printable_texts(*cluster.problems, *observed.problems, *errors),
        warnings=_printable_texts(*warnings, *unequal(desired.hosts, facts)),
        drivers={
            labels[HOSTNAME]: labels[DRIVER_LABEL]
            for listed in cluster.members.values()
            for labels in listed
            if HOSTNAME in labels and DRIVER_LABEL in labels
        },
        health=cluster.health,
        difference=Difference(
            hosts=differing,
            removed=gone,
            engines=replaced_engines(desired.hosts, facts),
            scheduling=cluster.scheduling or declared_gpus(desired.scheduling.pools),
            validation=_validation_after_reboots(
                cluster.validation,
                desired.validation.pools,
                desired.hosts,
                differing.reboot if desired.rollout.boots else (),
            ),
            platform=cluster.platform,
            groups=frozenset(cluster.surroundings.groups if cluster.surroundings else ()),
        ),
    )


def _member_names(members: Mapping[str, list[Mapping[str, str]]]) -> dict[str, set[str]]:
    """Return the names of each pool's nodes in the cluster."""
    return {
        pool: {labels[HOSTNAME] for labels in listed if HOSTNAME in labels}
        for pool, listed in members.items()
    }


def _kernels_elsewhere(
    kernels: Mapping[str, str],
    hosts: Iterable[DesiredHost],
    pools: Iterable[PoolScheduling],
) -> dict[str, str]:
    """Return the kernels of the nodes of GPU pools that are not declared as hosts of the stack."""
    host_nodes = {host.node for host in hosts}
    nodes = {name for pool in pools if pool.gpus for name in pool.nodes or ()}
    return {name: kernel for name, kernel in kernels.items() if name in nodes - host_nodes}


def with_losses(inspection: Inspection, observed: LossesSeen, platform: str) -> Inspection:
    """Return the inspection plus the pods that are evicted or lose their GPUs, and their faults.

    Args:
        observed: The pods.
        platform: Name of the desired platform.
    """
    difference = replace(inspection.difference, losses=observed.losses)
    move_faults = (*moves.faults(difference), *moves.unseen(platform, observed.unseen))
    problems = _printable_texts(*map(str, move_faults))
    return replace(inspection, difference=difference, problems=(*inspection.problems, *problems))


def with_busy(inspection: Inspection, refused: Mapping[str, str]) -> Inspection:
    """Return the inspection plus a fault for each node whose validation pods would make fail.

    A node that the run drains first is left out.

    Args:
        inspection: The inspection, with the plans of rollout and MIG layouts.
        refused: By node, the pods that hold its GPUs.
    """
    difference = inspection.difference
    drained = {change.host.node for change in difference.rollout.nodes} | set(
        difference.layouts.names
    )
    faults = (
        Fault(
            f"node {node}",
            f"GPUs in use: {text}",
            "free GPUs, because this run validates them and validation.busy is fail",
            "wait until these pods have ended, or declare validation.busy: defer",
        )
        for node, text in refused.items()
        if node not in drained
    )
    problems = (*inspection.problems, *_printable_texts(*map(str, faults)))
    return replace(inspection, problems=problems)


def _check_lost_nodes(
    newcomers: Iterable[DesiredHost],
    facts: Mapping[str, HostFacts],
    nodes: tuple[str, ...] | None,
) -> Iterator[Fault]:
    """Yield faults for hosts that have joined the cluster although their Node no longer exists.

    A host that never joined is left out, because it joins in this run.
    """
    if nodes is None:
        return
    for host in newcomers:
        phase = "prepare" if host.joins else "cluster"
        if host.name in facts and phase in facts[host.name].applied and host.node not in nodes:
            yield Fault(
                f"host {host.name}: node {host.node}",
                f"no such node in the cluster ({counted(len(nodes), 'node')}), although this host "
                "has joined it",
                "a node of this host",
                "restart kubelet there, or take the host out of the stack and declare it again",
            )


def _check_chart(desired_chart: WantedChart | None, problem: str) -> Iterator[Fault]:
    if desired_chart and problem:
        cure = (
            "allow access to it (HTTPS_PROXY is honored), or declare charts.directory or charts.oci"
        )
        if "://" not in desired_chart.place:
            cure = "correct charts.directory: a folder that has each chart as a folder of its name"
        yield Fault(
            f"chart {desired_chart.chart} {desired_chart.version}",
            problem,
            f"a chart that can be read from {desired_chart.place}: charts are checked before a "
            "host is changed",
            f"{cure}; `gpu-cluster images` shows how to compare an archive",
        )


def _gpu_hosts(declared: Iterable[DesiredHost], facts: Mapping[str, HostFacts]) -> list[str]:
    """Return the names of the hosts with GPUs that answered, in the order of their facts."""
    workers = {host.name for host in declared if host.role.has_gpus}
    return [name for name in facts if name in workers]


def _check_endpoints(
    endpoints: Mapping[str, str],
    declared: Iterable[DesiredHost],
    facts: Mapping[str, HostFacts],
) -> Iterator[Fault]:
    """Yield a fault for each endpoint, such as a licence server, that GPU hosts can't reach."""
    workers = _gpu_hosts(declared, facts)
    for software, address in endpoints.items():
        if hosts := [name for name in workers if address in facts[name].unreached]:
            yield Fault(
                hardware.place(hosts),
                f"no response from the {software} {address}",
                "a response, because GPUs need it there",
                "correct the address, or allow these hosts the access",
            )


def _check_registries(
    registries: Iterable[str], declared: Iterable[DesiredHost], facts: Mapping[str, HostFacts]
) -> Iterator[Fault]:
    """Yield warnings about registries that hosts can't reach.

    They are only warnings, because the container engine may have its own mirror or proxy.
    """
    workers = _gpu_hosts(declared, facts)
    for registry in registries:
        if hosts := [name for name in workers if registry in facts[name].unreached]:
            yield Fault(
                hardware.place(hosts),
                f"no response from {registry}",
                "the registry of images that GPU pods need",
                "allow outbound access to the registry or set registry.mirror; ignore this if the "
                "engine has a mirror",
                FaultSeverity.WARNING,
            )


def _cordoned_warning(node: str, who: str) -> Fault:
    """Return a warning about a node that somebody else cordoned; the node stays cordoned."""
    if who:
        return Fault(
            f"node {node}",
            f"cordoned by {who}",
            "a node that takes pods: until then none of its GPUs is validated or used",
            f"let it finish; `kubectl uncordon {node}` only when the work on it is done",
            FaultSeverity.WARNING,
        )
    return Fault(
        f"node {node}",
        "cordoned, not by this program",
        "a node that takes pods: until then none of its GPUs is validated or used",
        f"`kubectl uncordon {node}` when the work on it is done",
        FaultSeverity.WARNING,
    )


def _kept_layouts(layouts: Mapping[str, str], platform: str) -> Iterator[Fault]:
    """Yield warnings about MIG layouts that stay, because the platform changes none."""
    nodes: dict[str, list[str]] = {}
    for node, layout in layouts.items():
        nodes.setdefault(layout, []).append(node)
    for layout, names in nodes.items():
        yield Fault(
            f"node{'s' if names[1:] else ''} {shortened([*ranges(names)], NAMED)}",
            f"MIG layout {layout}, which an earlier platform of this stack has set",
            f"none, or MIG devices that {platform} offers: it changes no layout",
            "to disable MIG, declare the earlier platform without `mig`, run `gpu-cluster "
            "up`, and then "
            "change the platform",
            FaultSeverity.WARNING,
        )


def _warn_of_deferred(holders_by_node: Mapping[str, str], stack: str) -> Iterator[Fault]:
    """Yield warnings about nodes that can't be validated because pods hold their GPUs."""
    option = stack_option(stack)
    for node, text in list(holders_by_node.items())[:NAMED]:
        yield Fault(
            f"node {node}",
            text,
            "a kernel run on each GPU",
            f"when these pods have ended, run `gpu-cluster validate{option} --nodes {node}`",
            FaultSeverity.WARNING,
        )
    if (more := len(holders_by_node) - NAMED) > 0:
        yield Fault(
            f"{more} more nodes",
            "GPUs not validated, because pods use them",
            "a kernel run on each GPU",
            f"when these pods have ended, run `gpu-cluster validate{option}`",
            FaultSeverity.WARNING,
        )


def _validation_after_reboots(
    validation: ValidationDifference,
    pools: Iterable[PoolValidation],
    hosts: Iterable[DesiredHost],
    reboots: Container[str],
) -> ValidationDifference:
    """Return the nodes to validate, plus rebooted nodes, because a reboot ends their validation."""
    nodes = {host.node for host in hosts if host.name in reboots}
    booted = {
        pool.pool: tuple(
            due(name, "rebooted by this run") for name in pool.nodes or () if name in nodes
        )
        for pool in pools
    }
    return ValidationDifference(
        pools={
            pool: findings
            for pool in dict.fromkeys((*booted, *validation.pools))
            if (findings := (*booted.get(pool, ()), *validation.pools.get(pool, ())))
        }
    )


def _printable_texts(*texts: str) -> tuple[str, ...]:
    return tuple(map(printable_lines, texts))
