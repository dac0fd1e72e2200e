"""A host that is rolled, and what stops it before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable

from components.desired.rollout import RolledHost
from components.kubernetes.api import ClusterError
from components.rollout.plan import View
from policies.faults import Fault


def fault(host: RolledHost, found: str, wanted: str, cure: str) -> ClusterError:
    """What is wrong with a host."""
    return ClusterError(Fault(f"host {host.target.name}", found, wanted, cure))


def lost(name: str, view: View) -> list[Fault]:
    """Return pods of a node that would lose something without consent.

    Args:
        name: of the node.
        view: of it.
    """
    if not view.lost:
        return []
    cure = "delete them, or declare rollout.evict: [unmanaged, empty-dir]"
    return [Fault(f"node {name}", view.lost, "none, or your consent", cure)]


def refuse(hosts: Iterable[RolledHost], seen: dict[str, View]) -> None:
    """What is known to stop the rollout stops it before anything is changed.

    Raises:
        ClusterError: pods that would lose something without consent, what the plan refuses.
    """
    faults: list[Fault] = []
    for host in hosts:
        name = host.target.node
        faults += lost(name, seen.get(name, View()))
        if host.refused:
            cure = "declare it otherwise"
            faults.append(
                Fault(f"host {host.target.name}", host.refused, "what can be rolled", cure)
            )
    if faults:
        raise ClusterError(*faults)
