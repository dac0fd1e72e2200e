"""Checks of the hosts for a cluster that the stack creates with kubeadm."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from gpu_cluster.charts.extra_values import plain
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.kubeadm_init import Init
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.hosts.runtime import Engine
from gpu_cluster.settings.nodes.node_range import written_out
from gpu_cluster.settings.nodes.scheduling import SchedulingSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault, show

PLACE = ("kubernetesPackages", "init")
COUNTS = (1, 3)
"""Numbers of control-plane hosts: etcd with two members stands still when one of them does."""


def validate(sections: ValidSections) -> Iterator[Fault]:
    """Yield faults unless kubeadm can create the cluster on the declared hosts.

    The stack file must have one or three control-plane hosts, outside maintenance, a node on which
    CoreDNS can run, and a container engine other than K3s and RKE2. Three of them need an endpoint
    that none of them has.
    """
    packages = sections.section(KubernetesPackagesSettings)
    if packages is None or packages.init is None:
        return
    members = [host for host in sections.hosts.values() if host.role.is_control_plane]
    if len(members) not in COUNTS:
        names = ", ".join(host.name for host in members)
        yield fault(
            PLACE,
            f"{len(members)} control-plane hosts" + (f" ({names})" if names else ""),
            "one, or three: a majority of etcd's members must run",
            "give one host `role: control-plane` or `gpu-control-plane`, or three hosts",
        )
    else:
        yield from _check_endpoint(packages.init, members)
        if len(members) > 1:
            yield from _check_several(packages.init, members)
    yield from _check_members_in_service(sections, members)
    yield from _check_addresses(packages.init)
    if packages.init.has_dns:
        yield from _check_dns_taints(sections)
    for level in sections.host_levels:
        if level.runtime and (engine := level.runtime.engine) in (Engine.K3S, Engine.RKE2):
            yield fault(
                level.place("runtime", "engine"),
                f"{engine}, with kubernetesPackages.init",
                "an engine that works with kubeadm",
                f"remove init: {engine} creates its own cluster",
            )


def _check_addresses(init: Init) -> Iterator[Fault]:
    """Yield faults for address ranges and addresses of IPv4 and IPv6 that don't fit together.

    The API server requires that its own address and the first range of Services are of one family
    (kubernetes v1.34 cmd/kube-apiserver/app/options/completion.go); two ranges must be of both
    families (cmd/kubeadm/app/apis/kubeadm/validation/validation.go).
    """
    families: dict[str, list[int]] = {}
    for key, text in (("podSubnet", init.pod_subnet), ("serviceSubnet", init.service_subnet)):
        try:
            families[key] = [ipaddress.ip_network(part).version for part in text.split(",")]
        except ValueError as error:
            wanted = "an address range whose address is its first"
            yield fault((*PLACE, key), str(error), wanted, f"correct {key}")
            return
        if len(set(families[key])) != len(families[key]):
            found = f"two address ranges of IPv{families[key][0]}"
            yield fault((*PLACE, key), found, "one of IPv4 and one of IPv6", "remove one of them")
            return
    pods, services = families["podSubnet"], families["serviceSubnet"]
    if pods != services:
        yield fault(
            (*PLACE, "podSubnet"),
            f"{_in_words(pods)}, with {_in_words(services)} in serviceSubnet",
            "the same families in the same order for pods and Services",
            f"write a podSubnet of {_in_words(services)}, or a serviceSubnet of {_in_words(pods)}",
        )
    elif init.advertise_address and (own := _family(init.advertise_address)) not in (None, pods[0]):
        yield fault(
            (*PLACE, "advertiseAddress"),
            f"an address of IPv{own}, with Services of {_in_words(services)}",
            f"an address of IPv{services[0]}, as the first range of Services",
            f"write the host's address of IPv{services[0]}, or the range of IPv{own} first",
        )


def _in_words(families: list[int]) -> str:
    return " and ".join(f"IPv{family}" for family in families)


def _family(address: str) -> int | None:
    """Return 4 or 6; None for a host name."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return None


def _check_members_in_service(sections: ValidSections, members: Sequence[Host]) -> Iterator[Fault]:
    """Yield faults for control planes in maintenance, without which the cluster can't run.

    Of three, one may be in maintenance, but not the first one, which hands out tokens.
    """
    out = written_out(sections.maintenance)
    absent = [host for host in members if not {host.name, host.node}.isdisjoint(out)]
    for host in absent:
        cure = f"remove {host.name} from maintenance"
        if len(members) > len(absent) == 1:
            if host != members[0]:
                continue
            cure += f", or write {host.name} after the other control-plane hosts"
        yield fault(
            ("maintenance",),
            f"{show(host.name)}, on which the control plane is",
            "hosts without which the cluster still runs",
            cure,
        )


def _check_endpoint(init: Init, members: Sequence[Host]) -> Iterator[Fault]:
    """Yield faults if the endpoint can't be shared by several control planes, or by kube-vip."""
    address = init.endpoint_address
    if init.kube_vip and _family(address) is None:
        yield fault(
            (*PLACE, "endpoint"),
            f"{show(init.endpoint)}, a name, with kubeVip",
            "an IP address, which kube-vip gives to one of the hosts",
            "write the address that the name has",
        )
    if not init.kube_vip and len(members) == 1:
        return
    for host in members:
        if address not in (host.address, host.name, host.node):
            continue
        yield fault(
            (*PLACE, "endpoint"),
            f"{show(init.endpoint)}, which is host {host.name}",
            "an address that still answers when one control-plane host is down",
            "declare an address of the hosts' network that no host has"
            if init.kube_vip
            else "declare the address of a load balancer in front of all of them, which forwards "
            "TCP to the same port, or `kubeVip: {}` and an address that no host has",
        )


def _check_several(init: Init, members: Sequence[Host]) -> Iterator[Fault]:
    """Yield faults for settings that several control planes can't share."""
    if "external" in (plain(init.cluster_configuration).get("etcd") or {}):
        yield fault(
            (*PLACE, "clusterConfiguration"),
            f"etcd.external, with {len(members)} control-plane hosts",
            "etcd on the control-plane hosts: members of another etcd are not watched",
            "remove etcd.external, or make the cluster yourself and declare join",
        )
    if init.advertise_address:
        yield fault(
            (*PLACE, "advertiseAddress"),
            f"{show(init.advertise_address)}, one address for {len(members)} control-plane hosts",
            "no advertiseAddress: each host then advertises the address of its default route",
            "remove advertiseAddress",
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
