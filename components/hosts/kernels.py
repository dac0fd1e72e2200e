"""Kernels of a pool's hosts, held against each other: pure, no connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from components.desired.host import DesiredHost
from components.host_facts import HostFacts


def unequal(hosts: Iterable[DesiredHost], facts: Mapping[str, HostFacts]) -> list[str]:
    """Return one warning for each pool whose hosts run several kernels.

    A driver that builds on one need not build on the other, and a job that spans nodes meets
    both. A pinned kernel (``kernel.release``) ends it; a host that was not inspected says nothing.
    """
    by_pool: dict[str, dict[str, list[str]]] = {}
    for host in hosts:
        seen = facts.get(host.name)
        if host.pool and seen is not None and not seen.error and not host.kernel.release:
            kernels = by_pool.setdefault(host.pool, {})
            kernels.setdefault(seen.kernel, []).append(host.name)
    return [_warning(pool, kernels) for pool, kernels in by_pool.items() if len(kernels) > 1]


def _warning(pool: str, kernels: Mapping[str, list[str]]) -> str:
    shown = "; ".join(
        f"{kernel} on {', '.join(names[:3])}{' …' if len(names) > 3 else ''}"
        for kernel, names in sorted(kernels.items())
    )
    return (
        f"pool {pool}: found {len(kernels)} kernels ({shown}); wanted one; "
        "declare kernel.release, or upgrade the hosts that are behind"
    )
