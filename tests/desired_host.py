"""Resolved hosts, guardrails and reboot arguments, as the program derives them from a cluster."""

from __future__ import annotations

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.guardrails.component import GuardrailsArgs
from gpu_cluster.hosts.reboot.component import RebootArgs
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.hosts.host import Host


def desired_host(cluster: Cluster, host: Host | int = 0) -> DesiredHost:
    """Return one resolved host of a declared cluster.

    Args:
        cluster: The declared cluster.
        host: Index of the host, or a host's settings, which replace those of the declared host with
            the same name.
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
    own = desired.privileged_namespaces
    return GuardrailsArgs(context=desired.rules, own=own, guardrails=desired.guardrails)
