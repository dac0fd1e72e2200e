"""Warnings about settings that are valid but probably don't have the intended effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpu_cluster.loading.loader import sections_of
from gpu_cluster.platforms.discovery import named
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.host import Host
from gpu_rules.faults import Fault, fault


def warnings(cluster: Cluster) -> Iterator[Fault]:
    """Yield all warnings about settings of the hosts and of the GPU platform."""
    yield from _host_keys(cluster.hosts)
    yield from dict.fromkeys(named(cluster.platform).warnings(sections_of(cluster)))


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
