"""Checks of the hosts in a rollout before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable

from gpu_cluster.desired.rollout import RolledHost
from gpu_cluster.kubernetes.api import ClusterError
from gpu_cluster.nodes.consent import refused_loss
from gpu_cluster.rollout.plan import View
from gpu_rules.faults import Fault


def fault(host: RolledHost, found: str, wanted: str, cure: str) -> ClusterError:
    """Return an error about a host."""
    return ClusterError(Fault(f"host {host.target.name}", found, wanted, cure))


def lost(name: str, view: View) -> list[Fault]:
    """Return a fault if pods of a node would lose something without the user's consent.

    Args:
        view: Inspection result of the node.
    """
    return [refused_loss(name, view.lost)] if view.lost else []


def refuse(hosts: Iterable[RolledHost], node_views: dict[str, View]) -> None:
    """Stop the rollout before anything is changed if a known problem would stop it later.

    Raises:
        ClusterError: Pods would lose something without the user's consent, or the plan refuses a
            change.
    """
    faults: list[Fault] = []
    for host in hosts:
        name = host.target.node
        faults += lost(name, node_views.get(name, View()))
        if host.refused:
            cure = "undo this change in the stack file"
            faults.append(
                Fault(
                    f"host {host.target.name}",
                    host.refused,
                    "a change that can be made in waves",
                    cure,
                )
            )
    if faults:
        raise ClusterError(*faults)
