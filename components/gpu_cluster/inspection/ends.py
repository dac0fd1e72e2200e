"""Warnings about versions past their end of support or below a security floor. Pure functions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import date

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.nodes import DesiredNodes
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.hardware import place
from gpu_cluster.kubernetes.resources import DRIVER_LABEL
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_cluster.settings.support import REBUILDS, ended, is_unknown_system, supported
from gpu_rules.facts.engine_floors import SOFTWARE as ENGINES
from gpu_rules.facts.engine_floors import unfixed
from gpu_rules.facts.floors import Software, below, wanted
from gpu_rules.faults import Fault, FaultSeverity, Outside
from gpu_rules.printable import shortened

Members = Mapping[str, list[Mapping[str, str]]]
"""Labels of each pool's nodes, by pool name."""

HOSTNAME = "kubernetes.io/hostname"
_NAMED = 8
_SYSTEMS = ("debian", "ubuntu", "rhel", "amzn", *REBUILDS)
"""Operating systems of hosts, as os-release names them."""
_CURES = {
    "kubernetes": "upgrade the cluster (docs/explanation/rollout.md)",
    "containerd": "upgrade it; a distribution may still fix its own package",
    "driver": "declare a supported branch in driver.version",
    "crio": "upgrade it with Kubernetes",
    "gpu-operator": "`gpu-cluster upgrade-plan` shows the steps to a supported version",
}


def outlived(
    context: str,
    nodes: DesiredNodes,
    hosts: Sequence[DesiredHost],
    facts: Mapping[str, HostFacts],
    kubernetes: str,
    members: Members,
    today: date,
) -> Iterator[Fault]:
    """Yield warnings about unsupported versions, and about versions below a security floor.

    Hosts or nodes with the same version share a warning. Simulated hosts are skipped, because they
    run no real software.

    Args:
        facts: Facts of the inspected hosts, by name.
        kubernetes: Version of the cluster. Empty if it was not inspected.
        members: Labels of each pool's nodes.
        today: Current date; a version whose last day is before this date is unsupported.
    """
    package = hosts[0].sections.kubernetes_packages.version if hosts else None
    drivers = nodes.driver_versions
    installs = (host.sections.runtime.install for host in hosts)
    engines = {each.version: each.packages[0] for each in installs if each and each.version}
    yield from _warn_of_end(f"cluster {context}", "kubernetes", kubernetes, "Kubernetes", today)
    if package and package != kubernetes.removeprefix("v"):
        yield from _warn_of_end("kubernetesPackages.version", "kubernetes", package, "", today)
    for version, engine in engines.items():
        software = engine.removesuffix(".io")
        yield from _warn_of_weakness("runtime.install.version", software, version, today)
    for version, driver_place in drivers.items():
        yield from _warn_of_end(driver_place, "driver", version, "driver", today)
    yield from _check_host_versions(facts, drivers, today)
    inspected = {host.node for host in hosts if host.name in facts}
    yield from _check_node_drivers(members, inspected, drivers, today)


def outlived_chart(chart: str, version: str, today: date) -> Iterator[Fault]:
    """Yield a warning if the support of a chart's version has ended."""
    yield from _warn_of_end(f"chart {chart} {version}", chart, version, "", today)


def _check_host_versions(
    facts: Mapping[str, HostFacts], declared: Container[str], today: date
) -> Iterator[Fault]:
    hosts_by_version: dict[tuple[str, str], list[str]] = {}
    for name, host in facts.items():
        for software, version in _host_versions(host):
            if software != "driver" or version not in declared:
                hosts_by_version.setdefault((software, version), []).append(name)
    for (software, version), names in hosts_by_version.items():
        yield from _warn_of_end(place(names), software, version, software, today)
        yield from _warn_of_weakness(place(names), software, version, today)
        if software in _SYSTEMS and is_unknown_system(software, version):
            yield Fault(
                place(names),
                f"{software} {version}, whose end of support is unknown here",
                f"one that gets fixes: {', '.join(supported(software, today))}",
                Outside(f"ask the maker of {software}: interim releases get fixes only for months"),
                FaultSeverity.WARNING,
            )


def _host_versions(host: HostFacts) -> Iterable[tuple[str, str]]:
    if host.error or host.simulated:
        return ()
    versions = (
        (host.os, host.os_version),
        ("containerd", host.containerd),
        ("runc", host.runc),
        ("crio", host.crio),
        ("driver", host.driver),
    )
    return ((software, version) for software, version in versions if version)


def _check_node_drivers(
    members: Members, inspected: set[str], declared: Container[str], today: date
) -> Iterator[Fault]:
    """Yield warnings about drivers that labels name, for nodes whose hosts were not inspected."""
    nodes_by_version: dict[str, set[str]] = {}
    for labels in (labels for pool in members.values() for labels in pool):
        node, version = labels.get(HOSTNAME, ""), labels.get(DRIVER_LABEL, "")
        if node and version and node not in inspected:
            nodes_by_version.setdefault(version, set()).add(node)
    for version, nodes in nodes_by_version.items():
        node_place = _nodes_place(sorted(nodes, key=natural_order))
        if border := below(Software.DRIVER, version):
            fixed = wanted(Software.DRIVER, version, border)
            cure = f"install or declare that version: {border}"
            yield Fault(node_place, f"driver {version}", fixed, cure, FaultSeverity.WARNING)
        if version not in declared:
            yield from _warn_of_end(node_place, "driver", version, "driver", today)


def _nodes_place(nodes: list[str]) -> str:
    return f"node{'s' if nodes[1:] else ''} {shortened(nodes, _NAMED)}"


def _warn_of_end(
    place: str, software: str, version: str, title: str, today: date
) -> Iterator[Fault]:
    if gone := ended(software, version, today):
        fixed = f"a version that still gets fixes: {', '.join(supported(software, today))}"
        found = f"{title} {version}, whose {gone}".lstrip()
        cure = _CURES.get(software, "upgrade the system")
        yield Fault(place, found, fixed, cure, FaultSeverity.WARNING)


def _warn_of_weakness(place: str, software: str, version: str, today: date) -> Iterator[Fault]:
    """Yield a warning about a container engine's known weakness.

    A version whose support has ended gets that warning alone: none of its weaknesses is fixed.
    """
    if software not in ENGINES or ended(software, version, today):
        return
    if weakness := unfixed(software, version):
        cure = f"upgrade {software}, unless the distribution fixed its package: {weakness}"
        fixed = f"{weakness.fixed} or later"
        yield Fault(place, f"{software} {version}", fixed, cure, FaultSeverity.WARNING)
