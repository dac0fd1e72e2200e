"""Kernels of a pool's hosts, held against each other: pure, no connection."""

from __future__ import annotations

from collections.abc import Mapping

from components.hosts.facts import HostFacts
from components.settings.cluster import Cluster


def unequal(cluster: Cluster, facts: Mapping[str, HostFacts]) -> list[str]:
    """One warning for each pool whose hosts run several kernels.

    A driver that builds on one need not build on the other, and a job that spans nodes meets
    both. A pinned kernel (``kernel.release``) ends it; a host that was not looked at says nothing.
    """
    unequal_hosts = []
    for pool in cluster.pools:
        if pool.nodes is None:
            continue
        nodes = set(pool.node_names())
        by_kernel: dict[str, list[str]] = {}
        for host in cluster.hosts:
            seen = facts.get(host.name)
            pinned = cluster.of(host).kernel.release
            if host.node in nodes and seen is not None and not seen.error and not pinned:
                by_kernel.setdefault(seen.kernel, []).append(host.name)
        if len(by_kernel) > 1:
            shown = "; ".join(
                f"{kernel} on {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
                for kernel, names in sorted(by_kernel.items())
            )
            unequal_hosts.append(
                f"pool {pool.name}: found {len(by_kernel)} kernels ({shown}); wanted one; "
                "declare kernel.release, or upgrade the hosts that are behind"
            )
    return unequal_hosts
