"""Resolved hosts, as the program derives them from a declared cluster."""

from __future__ import annotations

from components.desired.host import DesiredHost
from components.desired.resolve import resolve
from components.guardrails.component import GuardrailsArgs
from components.hosts.reboot.component import RebootArgs
from components.settings.cluster import Cluster
from components.settings.hosts.host import Host


def desired_host(cluster: Cluster, host: Host | int = 0) -> DesiredHost:
    """Return a resolved host of a cluster.

    Args:
        cluster: The declared cluster.
        host: The host's index, or settings that replace those of the host with the same name.
    """
    if isinstance(host, int):
        return resolve(cluster, "dev").hosts[host]
    hosts = tuple(host if each.name == host.name else each for each in cluster.hosts)
    resolved = resolve(cluster.model_copy(update={"hosts": hosts}), "dev").hosts
    return next(each for each in resolved if each.name == host.name)


def rebooting(cluster: Cluster) -> RebootArgs:
    """Return the arguments of the component that reboots the hosts of a cluster."""
    desired = resolve(cluster, "dev")
    return RebootArgs(hosts=desired.hosts, rollout=desired.rollout, private_key="key")


def guarded(cluster: Cluster) -> GuardrailsArgs:
    """Return the arguments of the guardrails component of a cluster that declares guardrails."""
    desired = resolve(cluster, "dev")
    assert desired.guardrails is not None
    own = frozenset(space.name for space in desired.namespaces if space.privileged)
    return GuardrailsArgs(context=desired.rules, own=own, guardrails=desired.guardrails)
