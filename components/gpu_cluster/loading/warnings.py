"""Warnings about settings that are valid but probably don't have the intended effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_cluster.base.names import ZONE
from gpu_cluster.loading.loader import sections_of
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.kubernetes_packages import KubernetesPackagesSettings
from gpu_cluster.settings.valid_sections import ValidSections
from gpu_rules.faults import Fault, fault


def warnings(cluster: Cluster) -> Iterator[Fault]:
    """Yield all warnings about settings of the hosts and of the GPU platform."""
    sections = sections_of(cluster)
    yield from _host_keys(cluster.hosts)
    yield from _zones(sections)
    yield from dict.fromkeys(named(cluster.platform).warnings(sections))


def _zones(sections: ValidSections) -> Iterator[Fault]:
    """Yield a warning if all control-plane hosts of a cluster that the stack makes fail together.

    Nodes without the label have an unknown zone.
    """
    packages = sections.section(KubernetesPackagesSettings)
    members = [host.node for host in sections.hosts.values() if host.role.is_control_plane]
    if packages is None or packages.init is None or len(members) == 1:
        return
    zones = {
        node: sections.labels_of(pool, node).get(ZONE)
        for pool in sections.pools.values()
        for node in pool.node_names
    }
    zone, *others = {zones.get(node) for node in members} or {None}
    if zone and not others:
        yield fault(
            ("kubernetesPackages", "init"),
            f"all control-plane hosts ({', '.join(members)}) in {ZONE} {zone}",
            "at least two zones: without a majority of etcd's members nothing can change",
            "give one of these roles to a host of another zone",
        )


def _host_keys(hosts: Iterable[Host]) -> Iterator[Fault]:
    first: dict[str, str] = {}
    for i, host in enumerate(hosts):
        location = ("hosts", i, "hostKey")
        if host.host_key.startswith("ssh-rsa "):
            yield fault(
                location,
                "a key of type ssh-rsa",
                "a key of type ssh-ed25519: a client that pins an RSA key accepts only"
                " SHA-1 signatures, which current SSH servers do not create",
                "copy /etc/ssh/ssh_host_ed25519_key.pub",
            )
        first_host = first.setdefault(host.host_key, host.name)
        if first_host != host.name:
            yield fault(
                location,
                f"the same key as host {first_host}",
                "a different key on each host; machines copied from one image share a key",
                "create new keys with `ssh-keygen -A` after removing the copied keys",
            )
