"""Plan of a rollout: which nodes change, in which order, and what blocks them. Pure functions.

This module imports no settings, because programs import it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_cluster.findings import Aspect, Finding, Findings, Kind, Subject
from gpu_cluster.nodes.consent import refused_loss
from gpu_cluster.nodes.static_pods import StaticPods
from gpu_cluster.rollout.skew import ControlPlane, kubelet_refusal, oldest
from gpu_rules.printable import counted, printable

if TYPE_CHECKING:
    from gpu_cluster.desired.host import DesiredHost
    from gpu_cluster.hosts.disruption import StepChange
    from gpu_cluster.nodes.pods import PodOnNode

UNENDED = "an earlier run did not end"
"""Text about a host whose only change is to finish an interrupted rollout."""
OWNERS = 5
"""Maximum number of pod owners that a line names; pods of other owners are only counted."""


@dataclass(frozen=True)
class Change:
    """A host with declared, disruptive settings that are not applied yet.

    Attributes:
        steps: Steps whose disruptive settings change. Empty: an earlier run of them did not end.
        first: Whether nothing of what changes was ever applied on the host.
        boot: What the host shows that it must reboot for. Empty: the inspection shows nothing such.
        undoes_runtime: Whether the container runtime is no longer declared, so that it is undone.
    """

    host: DesiredHost
    steps: tuple[StepChange, ...]
    first: bool = False
    boot: str = ""
    undoes_runtime: bool = False

    @property
    def kubelet(self) -> tuple[str, str] | None:
        """Return the kubelet's version before and after the change; None if it does not change."""
        changed = (change.versions for change in self.steps if change.step == "kubernetes")
        return next(changed, None)

    @property
    def text(self) -> str:
        """Return the changed settings in words."""
        return "; ".join(change.text for change in self.steps) or UNENDED


@dataclass(frozen=True)
class EngineChange:
    """A host whose container engine is replaced, outside of any wave.

    Attributes:
        was: The engine that the host was last configured for.
        now: The declared engine.
    """

    host: str
    node: str
    was: str
    now: str

    @property
    def text(self) -> str:
        """Return the change in words."""
        return f"{printable(self.was)} is replaced by {self.now}"


@dataclass(frozen=True)
class View:
    """Inspection result of a node that changes (`gpu_cluster.rollout.inspect`).

    Attributes:
        left: Why the rollout skips the node, such as a cordon by an administrator. Empty: the
            rollout changes the node.
        begun: Whether an earlier run cordoned the node and was then interrupted.
        evicts: Number of pods to evict, by owner.
        pods: The pods to evict, by name.
        lost: Pods that an eviction would delete for good, or whose local data it would delete,
            without the user's consent. Empty: none.
        budgets: Names of PodDisruptionBudgets that currently allow no eviction of these pods.
        daemons: Number of pods with GPUs by the DaemonSet that owns them; a drain leaves them, and
            a change of the host stops them.
    """

    left: str = ""
    begun: bool = False
    evicts: Mapping[str, int] = field(default_factory=dict)
    pods: tuple[PodOnNode, ...] = ()
    lost: str = ""
    budgets: tuple[str, ...] = ()
    daemons: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Plan of a rollout.

    Attributes:
        changes: Hosts that the rollout changes, in order.
        left: Hosts that the rollout skips, with the reasons.
        views: Inspection results of nodes, by name. A node that is not in the cluster has none.
        at_once: Maximum number of nodes that may be out of use at the same time.
        may_boot: Whether hosts may be rebooted.
        server: Version of the oldest API server. Empty if it could not be read.
        made: Control plane that the stack created. None: it created none.
        static_pods: Static pods of the control plane.
    """

    changes: tuple[Change, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    at_once: int = 1
    may_boot: bool = True
    server: str = ""
    made: ControlPlane | None = None
    static_pods: StaticPods = field(default_factory=StaticPods)

    @property
    def behind(self) -> ControlPlane | None:
        """Return the part of the stack's control plane that is older than declared, or None."""
        behind = self.made and self.made.behind(self.static_pods.servers, self.server)
        return behind if behind and behind.hosts else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the hosts whose control plane is older than declared, and that don't change."""
        rolled = {change.host.name for change in self.changes}
        behind = self.behind.hosts.values() if self.behind else ()
        return tuple(name for name in behind if name not in rolled)

    @property
    def upgraded(self) -> ControlPlane | None:
        """Return the part of the control plane that this rollout upgrades, or None."""
        return None if self.waiting else self.behind

    @property
    def down(self) -> tuple[str, ...]:
        """Return the pods of the control plane that must be ready before one of its hosts changes.

        The pods of one host may be down if a change of that host was killed: the rollout goes on
        with it. An upgrade that was killed has upgraded the hosts before that one.
        """
        nodes = set(self.static_pods.down.values())
        changing = [change.host for change in self.changes if change.host.role.is_control_plane]
        mended = {host.node for host in changing if host.upgrade.is_first or not self._is_unbegun}
        may_start = not changing or (len(nodes) <= 1 and nodes <= mended)
        return () if may_start else tuple(sorted(self.static_pods.down))

    @property
    def _is_unbegun(self) -> bool:
        """Return whether all API servers of the stack's control plane wait for an upgrade."""
        return self.made is not None and self.behind == self.made

    def refusal(self, change: Change) -> str:
        """Return the reasons why a host's change must not be started; empty if it may start."""
        if not self.may_boot and change.boot:
            return (
                f"found {printable(change.boot)}, but no permission to reboot; "
                "declare reboot.when: required"
            )
        upgraded = self.upgraded
        if upgraded and change.host.name in upgraded.hosts.values():
            refused = upgraded.refusal(self.server)
            if refused:
                return refused if change.host.upgrade.is_first else ""
        if change.kubelet is None:
            return ""
        server = f"v{upgraded.version}" if upgraded else self.server
        cure = "run kubeadm upgrade on it first"
        if self.waiting:
            names = ", ".join(self.waiting)
            cure = f"run `up` when host {names}, which upgrades it, can be changed, too"
            if change.host.upgrade.is_control_plane:
                return (
                    f"found a control plane {printable(self.server)} on {names}, which this run "
                    f"does not change; wanted all control planes of one run; {cure}"
                )
        return kubelet_refusal(*change.kubelet, server, cure)

    @property
    def findings(self) -> Findings:
        """Return findings for hosts whose only change is to finish an interrupted rollout.

        Hosts with other changes are reported by the findings about those changes.
        """
        return tuple(
            Finding(
                kind=Kind.DUE,
                subject=Subject.HOST,
                name=change.host.name,
                aspect=Aspect.REASON,
                key=UNENDED,
            )
            for change in self.changes
            if not change.steps
        )

    @property
    def nodes(self) -> tuple[Change, ...]:
        """Return the changes of hosts that are nodes of the cluster."""
        return tuple(change for change in self.changes if change.host.node in self.views)


def plan(
    changes: Iterable[Change],
    views: Mapping[str, View],
    at_once: int = 1,
    may_boot: bool = True,
    server: str = "",
    control_plane: ControlPlane | None = None,
    static_pods: StaticPods | None = None,
) -> Plan:
    """Return the rollout plan: control plane first, then interrupted changes, then all others.

    A host on which nothing was ever applied is included only if pods run on its node; a new host is
    prepared together with all other new hosts.
    """
    rolled, left_alone = [], {}
    for change in changes:
        view = views.get(change.host.node)
        if change.first and not (view and (view.evicts or view.begun)):
            continue
        if view and view.left:
            left_alone[change.host.name] = view.left
        else:
            rolled.append(change)

    def order(change: Change) -> tuple[bool, bool, bool]:
        view, host = views.get(change.host.node, View()), change.host
        return not host.role.is_control_plane, not host.upgrade.is_first, not view.begun

    pods = static_pods or StaticPods()
    return Plan(
        tuple(sorted(rolled, key=order)),
        left_alone,
        views,
        at_once,
        may_boot,
        oldest((server, *pods.servers.values())),
        control_plane,
        pods,
    )


def waves(rollout: Plan) -> list[list[str]]:
    """Return the nodes of each wave: single control plane nodes, a canary worker, then the rest."""
    alone = [change.host.node for change in rollout.nodes if change.host.role.is_control_plane]
    workers = [
        change.host.node for change in rollout.nodes if not change.host.role.is_control_plane
    ]
    return [*([name] for name in alone), *filter(None, (workers[:1], workers[1:]))]


def words(rollout: Plan) -> Iterable[str]:
    """Yield the lines of the plan for the preview."""
    nodes = rollout.nodes
    for host, reason in rollout.left.items():
        yield f"host {host} left alone: {reason}"
    outside = [
        change.host.name for change in rollout.changes if change.host.node not in rollout.views
    ]
    if outside:
        yield f"changed immediately, not in the cluster: {', '.join(outside)}"
    if not nodes:
        return
    pods = sum(sum(rollout.views[change.host.node].evicts.values()) for change in nodes)
    yield (
        f"{counted(len(nodes), 'node')} changed in waves, {counted(pods, 'pod')} evicted; "
        f"all of it is fetched before the first node is touched"
    )
    yield from wave_words(waves(rollout), rollout.at_once)
    if upgraded := rollout.upgraded:
        names = tuple(upgraded.hosts.values())
        where = (
            f"host {names[0]}, before its node is drained"
            if len(names) == 1
            else f"hosts {', '.join(names)}, one after the other, before any node is drained"
        )
        yield (
            f"control plane {printable(rollout.server.removeprefix('v'))} → {upgraded.version} "
            f"by kubeadm upgrade on {where}"
        )
    for change in nodes:
        name = change.host.node
        yield from node_words(name, change.text, rollout.views[name])
        if rollout.views[name].daemons:
            yield f"node {name}: stops pods with GPUs, {_owners_text(rollout.views[name].daemons)}"


def wave_words(waves_of_nodes: list[list[str]], at_once: int) -> Iterable[str]:
    """Yield one numbered line of the preview per wave."""
    for number, wave in enumerate(waves_of_nodes, 1):
        kind = "" if len(wave) == 1 else f" (at most {at_once} at once)"
        yield f"wave {number}{kind}: {', '.join(wave)}"


def node_words(name: str, change: str, view: View) -> Iterable[str]:
    """Yield the preview's lines about a node that the rollout drains."""
    yield f"node {name}: {printable(change)}"
    if view.evicts:
        yield f"node {name}: evicts {_owners_text(view.evicts)}"
    if view.budgets:
        yield (
            f"node {name}: waits while PodDisruptionBudgets allow no disruption: "
            f"{printable(', '.join(view.budgets))}"
        )


def blockers(rollout: Plan) -> Iterable[str]:
    """Yield the reasons why the rollout can't start."""
    if rollout.down:
        yield (
            "rollout: control plane: found pods that aren't ready: "
            f"{printable(', '.join(rollout.down))}; wanted each member of etcd and each API "
            "server ready, before a host with a control plane is changed; mend the control plane "
            "that is down first, then run `up` again"
        )
    for change in rollout.changes:
        view = rollout.views.get(change.host.node)
        if view:
            yield from blocked(change.host.node, view)
        if refusal := rollout.refusal(change):
            yield f"rollout: host {change.host.name}: {refusal}"


def blocked(name: str, view: View) -> Iterable[str]:
    """Yield the reasons why a node's change can't start."""
    if view.lost:
        yield f"rollout: {refused_loss(name, printable(view.lost))}"


def _owners_text(evicts: Mapping[str, int]) -> str:
    largest_first = sorted(evicts.items(), key=lambda item: (-item[1], item[0]))
    remaining = sum(number for _, number in largest_first[OWNERS:])
    text = ", ".join(f"{number} of {printable(name)}" for name, number in largest_first[:OWNERS])
    return f"{text} and {remaining} more" if remaining else text
