"""A host that is rolled, and what stops it before anything is changed."""

from __future__ import annotations

from dataclasses import dataclass

from components.api import ClusterError, Json
from components.hosts.settings.host import Host
from components.rollout.plan import View
from config.problem import Fault


@dataclass(frozen=True)
class Target:
    """A host that is rolled, with its part of the input."""

    host: Host
    document: Json

    @property
    def is_alone(self) -> bool:
        """Whether it is of the control plane."""
        return self.host.role.is_control_plane


def fault(target: Target, found: str, wanted: str, cure: str) -> ClusterError:
    """What is wrong with a host."""
    return ClusterError(Fault(f"host {target.host.name}", found, wanted, cure))


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


def refuse(targets: list[Target], seen: dict[str, View]) -> None:
    """What is known to stop the rollout stops it before anything is changed.

    Raises:
        ClusterError: pods that would lose something without consent, what the plan refuses.
    """
    faults: list[Fault] = []
    for target in targets:
        faults += lost(target.host.node, seen.get(target.host.node, View()))
        if refused := target.document["refused"]:
            cure = "declare it otherwise"
            faults.append(Fault(f"host {target.host.name}", refused, "what can be rolled", cure))
    if faults:
        raise ClusterError(*faults)
