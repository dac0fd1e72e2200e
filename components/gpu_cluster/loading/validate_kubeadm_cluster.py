"""Checks of the hosts for a cluster that the stack creates with kubeadm."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.nodes.node_range import written_out
from gpu_cluster.settings.nodes.scheduling import SchedulingSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault, show

PLACE = ("kubernetesPackages", "init")


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults unless kubeadm can create the cluster on the declared hosts.

    The stack file must have exactly one control-plane host, outside maintenance, a node on which
    CoreDNS can run, and a container engine other than K3s and RKE2.
    """
    packages = sections.section(KubernetesPackagesSettings)
    if packages is None or packages.init is None:
        return
    first = [host for host in sections.hosts.values() if host.role.is_control_plane]
    if len(first) != 1:
        names = ", ".join(host.name for host in first)
        yield fault(
            PLACE,
            f"{len(first)} control-plane hosts" + (f" ({names})" if names else ""),
            "exactly one, because init creates only one",
            "give one host `role: control-plane` or `gpu-control-plane`; for more of them make the "
            "cluster yourself and declare join",
        )
    for host in first:
        if not {host.name, host.node}.isdisjoint(written_out(sections.maintenance)):
            yield fault(
                ("maintenance",),
                f"{show(host.name)}, on which the control plane is",
                "hosts that the cluster can run without",
                f"take {host.name} out of it",
            )
    if packages.init.has_dns:
        yield from _check_dns_taints(sections)
    for level in sections.host_levels:
        if level.runtime and (engine := level.runtime.engine) in (Engine.K3S, Engine.RKE2):
            yield fault(
                level.place("runtime", "engine"),
                f"{engine}, with kubernetesPackages.init",
                "an engine that kubeadm is used with",
                f"remove init: {engine} creates its own cluster",
            )


def _check_dns_taints(sections: ValidSections) -> Iterator[Fault]:
    """Yield a fault if every node of the new cluster gets a taint that CoreDNS does not tolerate.

    A pod that runs when its node gets the taint stays, but no drain could move it to another node.
    """
    pools = sections.pools.items()
    scheduling = sections.section(SchedulingSettings) or SchedulingSettings()
    closed = {
        name: i
        for i, pool in pools
        for pool_part in pool.parts(scheduling.nodes)
        for name in pool_part.node_names
        if any(taint.node_taint.is_hard for taint in pool_part.taints)
    }
    by_label = any(pool.selector is not None for _, pool in pools)
    nodes = [host.node for host in sections.hosts.values()]
    if nodes and sections.complete and not by_label and closed.keys() >= set(nodes):
        yield fault(
            ("pools", closed[nodes[0]], "taints"),
            "taints on each node of the cluster that init creates",
            "one node for pods without GPUs: CoreDNS must run somewhere",
            "write `taints: []` for one pool, declare a host that is in no pool, or leave CoreDNS "
            "out by `skipPhases: [addon/coredns]`",
        )
