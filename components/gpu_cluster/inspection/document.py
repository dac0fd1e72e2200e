"""Build the change document: what a run would change in a cluster. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

from gpu_cluster.base.compatibility import version
from gpu_cluster.change.document import (
    Cause,
    ClusterChange,
    Direction,
    Down,
    Gap,
    Limit,
    Loss,
    NodeChange,
    Numbers,
    Outage,
    PodChange,
    PoolChange,
    Problem,
    ResourceNumbers,
    Restriction,
    SharedGpus,
    SharingKind,
    Statement,
    UnusableGpus,
    VersionChange,
)
from gpu_cluster.change.names import listed
from gpu_cluster.change.text import is_digest
from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.desired.nodes import DesiredNodes
from gpu_cluster.desired.parts import WHOLE, Part
from gpu_cluster.desired.rollout import DesiredRollout
from gpu_cluster.desired.validation import LEFT_OUT, DesiredValidation
from gpu_cluster.findings import EXPECTED_GPUS, PATHS, Aspect, Finding, Kind, Subject, is_setting
from gpu_cluster.hosts.difference import every_file, files
from gpu_cluster.inspection.difference import Difference
from gpu_cluster.inspection.judgement import Inspection
from gpu_cluster.inspection.losses import PLATFORM, RELEASE, new_taint, replaces_driver
from gpu_cluster.inspection.upgrade_path import refused_upgrades, upgrade_path
from gpu_cluster.kubernetes.gather import CONCURRENCY
from gpu_cluster.nodes.difference import NodeGpus
from gpu_cluster.platforms.base import Platform, Trait
from gpu_cluster.platforms.discovery import SECTIONS
from gpu_cluster.release.clear import named_nodes
from gpu_cluster.rollout import plan
from gpu_cluster.settings.hosts.driver import DriverSettings, DriverSource
from gpu_cluster.settings.nodes.devices import recorded_indexes
from gpu_cluster.settings.nodes.node_range import natural_order
from gpu_cluster.validation.health import NodeHealth
from gpu_rules.facts.parts import operator_part
from gpu_rules.kube.taints import NodeTaint
from gpu_rules.printable import printable

DIGESTED: Mapping[str, str] = {
    "mig": "pools[].mig",
    "registry": "registry.*",
    "validation.command": "validation.command",
    "driver": "driver.*",
    "runtime": "runtime.*",
    "driverInstaller": "driverInstaller.*",
} | {key: f"{key}.*" for key in SECTIONS}
"""Settings of which a node keeps only a digest (`gpu_cluster.desired.resolve`), by their paths."""
REASONS = 2
"""Maximum number of stack file edits that the reason for a drain names."""
Wave = tuple[Sequence[str], int]
"""Nodes that are changed together, and how many of them are out of use at the same time."""


class HealthFields(TypedDict):
    """Fields of a `ClusterChange` about the GPUs that pods can use now."""

    usable: int | None
    unusable: tuple[UnusableGpus, ...]
    simulated: bool


def health_fields(health: Sequence[NodeHealth]) -> HealthFields:
    """Return the fields of a `ClusterChange` about the GPUs that pods can use now.

    Args:
        health: GPUs of each validated node. Empty: not inspected.
    """
    return HealthFields(
        usable=sum(node_health.usable for node_health in health) if health else None,
        unusable=tuple(
            UnusableGpus(
                node=printable(node_health.node),
                gpus=node_health.declared - node_health.usable,
                lost=node_health.lost,
                why=node_health.why,
            )
            for node_health in health
            if node_health.usable < node_health.declared
        ),
        simulated=bool(health) and all(node_health.simulated for node_health in health),
    )


@dataclass(frozen=True, kw_only=True)
class ChangeCollector:
    """Collector of what a run would change in a cluster, from the settings and the inspection.

    Attributes:
        platform: Platform that advertises the GPUs.
        validation: Pools and tests to validate.
        rollout: Limits of changes that make nodes unavailable.
        maintenance: Hosts and nodes in maintenance, as written in the stack file.
        inspection: Result of the inspection.
        unsupported: By software, the version from which an unsupported upgrade is accepted.
        parts: Parts of the cluster that the program declares.
    """

    hosts: tuple[DesiredHost, ...]
    nodes: DesiredNodes
    platform: Platform
    validation: DesiredValidation
    rollout: DesiredRollout
    maintenance: tuple[str, ...]
    inspection: Inspection
    unsupported: Mapping[str, str]
    parts: Collection[Part] = WHOLE

    def change(self, name: str) -> ClusterChange:
        """Return the change document's part about the cluster.

        Args:
            name: Name of the component `GpuCluster`.
        """
        difference = self._difference
        gaps, health = tuple(self._gaps()), self.inspection.health
        versions = tuple(self._versions())
        refused = refused_upgrades(versions, self.unsupported)
        return ClusterChange(
            name=name,
            parts=tuple(part for part in Part if part in self.parts),
            unknown=difference.unknown,
            pools=tuple(self._pools()),
            nodes=tuple(self._changed_nodes()),
            at_once=self.rollout.max_unavailable,
            pods=tuple(_evicted_pods(difference)),
            gaps=gaps,
            down=self._down(gaps),
            limits=tuple(self._limits()),
            versions=versions,
            files=tuple(self._files()),
            changes=_join_statements(difference.of(Kind.CHANGE)),
            drift=_join_statements(difference.of(Kind.DRIFT)),
            due=_join_statements(difference.of(Kind.DUE)),
            **health_fields(health),
            faults=tuple(
                Problem(text=text)
                for text in (
                    *self.inspection.problems,
                    *_drain_blockers(difference),
                    *map(str, refused),
                )
            ),
            warnings=tuple(
                Problem(text=text, mandatory=False) for text in self.inspection.warnings
            ),
            uninspected=tuple(_uninspected_parts(self.inspection)),
            notes=(*_change_notes(difference), *self._without_hosts()),
            maintenance=self.maintenance,
            resting=self._resting(),
        )

    def _resting(self) -> Numbers | None:
        """Return the GPUs of the nodes in maintenance; None if the nodes were not inspected."""
        resting = self._difference.scheduling.resting
        return Numbers(before=resting.before, after=resting.after) if resting else None

    def _without_hosts(self) -> Iterator[str]:
        """Yield a note about nodes on which a run can't install the driver that is declared."""
        hosts = {host.node for host in self.hosts}
        names = {
            finding.name
            for finding in self._difference.validation.findings
            if is_setting(finding, "driver.source", "driver.version")
            if finding.kind is Kind.CHANGE and finding.name not in hosts
            if self._driver_of(finding.name).by_preparation
        }
        if names:
            verb = "have" if names - {min(names)} else "has"
            text = f"{listed(sorted(names, key=natural_order))} {verb} no host in the stack file"
            yield f"{text}: gpu-cluster installs no driver there"

    @property
    def _difference(self) -> Difference:
        return self.inspection.difference

    @cached_property
    def _nodes(self) -> dict[str, NodeGpus]:
        """Return the inspected nodes of pools, by name."""
        return {node.node: node for node in self._difference.scheduling.nodes}

    def _files(self) -> Iterator[Statement]:
        """Yield the configuration files that the run may write, each with its hosts."""
        hosts_by_path: dict[str, list[str]] = {}
        for host in self.hosts:
            for path in files(host, self._difference.hosts.by_host.get(host.name, ())):
                hosts_by_path.setdefault(path, []).append(host.name)
        if removed := self._difference.removed:
            for path in every_file():
                hosts_by_path.setdefault(path, []).extend(removed)
        for path, names in sorted(hosts_by_path.items()):
            yield Statement(
                subject="host", names=tuple(map(printable, names)), aspect=Aspect.VALUE, key=path
            )

    def _pools(self) -> Iterator[PoolChange]:
        offers: dict[str, dict[str, int]] = {}
        for pool_part in self.validation.pools:
            count = len(pool_part.nodes) if pool_part.nodes is not None else pool_part.count
            pool = next((self.validation.pool_of[n] for n in pool_part.nodes or ()
                         if n in self.validation.pool_of), pool_part.pool)  # fmt: skip
            into = offers.setdefault(pool, {})
            for resource, amount in pool_part.resources.items():
                into[resource] = into.get(resource, 0) + amount * count
        before: dict[str, dict[str, int]] = {}
        for node in self._difference.scheduling.nodes:
            if node.was:
                into = before.setdefault(node.was, {})
                for resource, amount in node.advertised.items():
                    into[resource] = into.get(resource, 0) + amount
        for pool_gpus in self._difference.gpus:
            was, now = before.get(pool_gpus.pool, {}), offers.get(pool_gpus.pool, {})
            names = [name for name in sorted({*was, *now}) if was.get(name) or now.get(name)]
            # Without nodes nothing was read of a pool that had GPUs, as if one of its nodes lacks.
            inspected = pool_gpus.before == 0 or pool_gpus.pool in before
            yield PoolChange(
                pool=pool_gpus.pool,
                gpus=Numbers(before=pool_gpus.before, after=pool_gpus.after),
                resources=tuple(
                    ResourceNumbers(
                        name=name,
                        before=was.get(name, 0) if inspected else None,
                        after=now.get(name, 0),
                    )
                    for name in names
                ),
                sharing=self._sharing(pool_gpus.pool),
            )

    def _sharing(self, name: str) -> SharedGpus | None:
        """Return how pods share the GPUs of a pool after the run."""
        if Trait.SHARES_CARDS in self.platform.traits:
            return None
        pool = next((pool for pool in self.platform.site.gpu_pools if pool.name == name), None)
        plugin = self.platform.plugin(pool) if pool else None
        if plugin is None or plugin.replicas < 2:
            return None
        kind = SharingKind.MPS if plugin.mps else SharingKind.TIME_SLICING
        return SharedGpus(kind=kind, pods=plugin.replicas)

    def _changed_nodes(self) -> Iterator[NodeChange]:
        """Yield the nodes that change pools or GPUs, or are drained, rebooted or validated."""
        validated = {finding.name for finding in self._difference.validation.findings}
        outages = self._outages()
        rolled = {name for name, outage in outages.items() if outage.outage is Outage.ROLLOUT}
        for name in dict.fromkeys((*self._nodes, *outages, *sorted(validated, key=natural_order))):
            node = self._nodes.get(name)
            node_change = outages.get(name) or NodeChange(node=name)
            node_change = node_change.model_copy(
                update={"validated": name in validated or name in rolled}
            )
            if node is not None:
                gpus = Numbers(before=node.before, after=node.after)
                node_change = node_change.model_copy(
                    update={"was": node.was, "pool": node.pool, "gpus": gpus}
                )
            same = node is None or (node.was == node.pool and node.before == node.after)
            if not same or node_change.validated or node_change.outage:
                yield node_change

    def _outages(self) -> dict[str, NodeChange]:
        """Return the nodes that the run takes out of use temporarily, by name."""
        outages: dict[str, NodeChange] = {}
        rolled = plan.waves(self._difference.rollout)
        booting = {change.host.node for change in self._difference.rollout.nodes if change.boot}
        for number, names in enumerate(rolled, 1):
            for name in names:
                outages[name] = NodeChange(
                    node=name,
                    outage=Outage.ROLLOUT,
                    wave=number,
                    drained=True,
                    rebooted=name in booting and self.rollout.boots,
                )
        for name in self._rebooted():
            node_change = outages.get(
                name, NodeChange(node=name, outage=Outage.REBOOT, drained=True)
            )
            outages[name] = node_change.model_copy(update={"rebooted": True})
        layouts = self._difference.layouts
        drained = [name for name in layouts.names if layouts.view(name).evicts]
        for name in layouts.names:
            wave = None if name not in drained else 1 if name == drained[0] else 2
            outages.setdefault(
                name,
                NodeChange(node=name, outage=Outage.MIG_LAYOUT, wave=wave, drained=name in drained),
            )
        return outages

    def _rebooted(self) -> list[str]:
        """Return the nodes whose hosts the run reboots since an earlier run left that to do."""
        if not self.rollout.boots:
            return []
        return [host.node for host in self.hosts if host.name in self._difference.hosts.reboot]

    def _gaps(self) -> Iterator[Gap]:
        """Yield the gaps: which GPUs are unavailable during a part of the run, and why."""
        yield from self._host_gaps()
        yield from self._platform_gaps()
        mig_waves = self._layout_waves()
        layouts: dict[str, list[str]] = {}
        for name in self._difference.layouts.names:
            reason = _finding_text(self._difference.layouts.changes[name])
            layouts.setdefault(reason, []).append(name)
        for reason, names in layouts.items():
            yield from self._gap(reason, names, mig_waves)

    def _gap(
        self, reason: str, names: Sequence[str], waves: Sequence[Wave], *, evicts: bool = True
    ) -> Iterator[Gap]:
        """Yield the gap of nodes; nothing if they have no GPUs."""
        by_node = self._gpus_by_node
        if total := sum(by_node.get(name, 0) for name in names):
            yield Gap(
                why=printable(reason),
                nodes=tuple(names),
                gpus=total,
                at_most=_at_most(names, waves, by_node),
                evicts=evicts,
            )

    def _host_gaps(self) -> Iterator[Gap]:
        """Yield the gaps while hosts are changed or rebooted."""
        difference = self._difference
        rolled = self._rollout_waves()
        drivers = {
            driver_nodes: f"driver {was or 'not installed'} → {now}"
            for driver_nodes, was, now in self._drivers()
        }
        reasons: dict[str, list[str]] = {}
        for change in difference.rollout.nodes:
            words = _drain_reasons(change, difference, drivers.get(change.host.name, ""))
            reasons.setdefault("; ".join(words), []).append(change.host.node)
        # Nodes without a runtime have no GPUs until the new platform runs, also after their turn.
        undone = {
            node_change.host.node
            for node_change in difference.rollout.nodes
            if node_change.undoes_runtime
        }
        for reason, names in reasons.items():
            at_once: list[Wave] = [(names, len(names))]
            yield from self._gap(
                f"drained for {reason}", names, at_once if undone & {*names} else rolled
            )
        replaced_by: dict[str, list[str]] = {}
        for engine in difference.engines:
            replaced_by.setdefault(engine.text, []).append(engine.node)
        for reason, names in replaced_by.items():
            yield from self._gap(reason, names, [(names, len(names))])
        rebooted = self._rebooted()
        yield from self._gap("rebooted", rebooted, [(rebooted, self.rollout.max_unavailable)])

    def _platform_gaps(self) -> Iterator[Gap]:
        """Yield the gaps while the platform is replaced, or its pods restart."""
        difference = self._difference
        edits = [
            finding for finding in difference.validation.findings if finding.kind is Kind.CHANGE
        ]
        containers = [
            edit.name for edit in edits if replaces_driver(edit, self._driver_of(edit.name))
        ]
        for key, template in (
            (PLATFORM, "platform {} is removed before {} is installed"),
            (RELEASE, "Helm release is removed in {} before it is installed in {}"),
        ):
            if replaced := [edit for edit in edits if is_setting(edit, key)]:
                names = [edit.name for edit in replaced]
                # Of a release, the namespace is named; its name is that of the chart.
                was, now = (text.partition("/")[0] for text in (replaced[0].was, replaced[0].now))
                reason = template.format(was, now)
                yield from self._gap(reason, names, [(names, len(names))], evicts=bool(containers))
                return
        if containers:
            names = list(dict.fromkeys(containers))
            most = self.platform.parallel_drivers(len(names))
            pace = "node by node" if most == 1 else f"at most {most} nodes at a time"
            yield from self._gap(
                f"the driver's container is replaced, {pace}", names, [(names, most)]
            )
        with_gpus = [name for name, count in self._gpus_by_node.items() if count]
        restarted = [edit.name for edit in edits if is_setting(edit, *SECTIONS)]
        exchanged = {
            edit.name: {recorded_indexes(edit.was), recorded_indexes(edit.now)}
            for edit in edits
            if is_setting(edit, LEFT_OUT)
            if recorded_indexes(edit.was) or recorded_indexes(edit.now)
        }
        # These nodes are without a plugin until the restart of the release's pods has ended.
        moved = {*self._served_anew(), *exchanged}
        # A plugin that gains or loses a node restarts on its other nodes, too.
        servers = {indexes for both in exchanged.values() for indexes in both}
        restarted += [
            name for name in with_gpus if name in moved or self._left_out.get(name) in servers
        ]
        if difference.platform.chart or (difference.platform.is_upgraded and not containers):
            restarted = with_gpus
            moved |= {
                node.node
                for node in self._nodes.values()
                if node.before and node.after and node.before != node.after
            }
            # Nodes get their taints before the platform's pods tolerate them.
            moved |= {
                finding.name
                for finding in difference.scheduling.findings
                if (taint := new_taint(finding)) is not None and taint.evicts
            }
        if restarted:
            names = list(dict.fromkeys(restarted))
            # Each plugin restarts node by node, at the same time as the others.
            at_once = len(moved) + len({self._left_out.get(name) for name in {*names} - moved})
            pace = ", node by node" if at_once == 1 else ""
            reason = f"the pods of {self.platform.chart} restart{pace}"
            yield from self._gap(reason, names, [(names, at_once)], evicts=False)
        elif repaired := self._repaired_server():
            reason = f"{repaired} gets back what was edited by hand; its pods restart, node by node"
            yield from self._gap(reason, with_gpus, [(with_gpus, 1)], evicts=False)

    @cached_property
    def _left_out(self) -> dict[str, tuple[int, ...]]:
        """Return the GPUs left out by index, by node: nodes with the same ones share a plugin."""
        return {
            name: tuple(sorted(devices.index))
            for pool in self.platform.site.pools
            for name, devices in pool.unhealthy_devices.items()
            if devices.index
        }

    def _served_anew(self) -> Iterator[str]:
        """Yield the nodes that get a device plugin of their own, without some of their GPUs."""
        created = {
            finding.name
            for finding in self._difference.platform.missing
            if finding.kind is Kind.CHANGE
        }
        for item in self.platform.installation.objects:
            metadata = item.manifest["metadata"]
            name = f"DaemonSet {metadata.get('namespace')}/{metadata['name']}"
            if item.manifest["kind"] == "DaemonSet" and name in created:
                yield from sorted(named_nodes(item.manifest), key=natural_order)

    def _repaired_server(self) -> str:
        """Return the DaemonSet that advertises GPUs, if the run repairs an edit of its pods."""
        installation = self.platform.installation
        name = f"DaemonSet {installation.namespace}/{installation.servers.daemon_set}"
        edited = [
            finding
            for finding in self._difference.platform.edited
            if finding.name == name and finding.key.startswith("spec.template.")
        ]
        return name if edited else ""

    @cached_property
    def _gpus_by_node(self) -> dict[str, int]:
        """Return the number of GPUs of each node before the run."""
        gpus = {pool.pool: pool.gpus for pool in self.validation.pools}
        declared = {
            name: gpus.get(pool.pool, 0)
            for pool in self.validation.pools
            for name in pool.nodes or ()
        }
        return declared | {name: node.before for name, node in self._nodes.items()}

    def _rollout_waves(self) -> list[Wave]:
        """Return the waves of the hosts' rollout, each with the number of nodes down at a time."""
        return [
            (names, self.rollout.max_unavailable) for names in plan.waves(self._difference.rollout)
        ]

    def _layout_waves(self) -> list[Wave]:
        """Return the waves of MIG changes: one node without pods, the others, nodes with pods."""
        layouts = self._difference.layouts
        idle = [name for name in layouts.names if not layouts.view(name).evicts]
        busy = [name for name in layouts.names if layouts.view(name).evicts]
        at_once = self.rollout.max_unavailable
        return [(idle[:1], 1), (idle[1:], CONCURRENCY), (busy[:1], 1), (busy[1:], at_once)]

    def _down(self, gaps: Sequence[Gap]) -> Down | None:
        """Return how many GPUs the run takes down in all, and at most at the same time."""
        if not gaps:
            return None
        nodes = tuple(dict.fromkeys(name for gap in gaps for name in gap.nodes))
        # One rollout can cause several gaps, because its hosts can have different edits. So the
        # maximum is also computed over the waves of the rollout and of the MIG changes.
        steps = [
            _at_most(nodes, waves, self._gpus_by_node)
            for waves in (self._rollout_waves(), self._layout_waves())
            if waves
        ]
        return Down(
            nodes=nodes,
            gpus=sum(self._gpus_by_node.get(name, 0) for name in nodes),
            at_most=max(*(gap.at_most for gap in gaps), *steps),
        )

    def _limits(self) -> Iterator[Limit]:
        """Yield GPUs that no step takes down, but that end undeclared, tainted or uninspected."""
        difference = self._difference
        gone = {n.node: n.before for n in self._nodes.values() if n.was and n.before and not n.pool}
        if gone:
            yield Limit(what=Restriction.LEAVES_POOL, nodes=tuple(gone), gpus=sum(gone.values()))
        fewer = {
            n.node: n.before - n.after
            for n in self._nodes.values()
            if n.pool and n.after < n.before
        }
        if fewer:
            yield Limit(what=Restriction.UNDECLARED, nodes=tuple(fewer), gpus=sum(fewer.values()))
        tainted: dict[NodeTaint, list[str]] = {}
        for finding in difference.scheduling.findings:
            new = new_taint(finding)
            if new is not None and new.is_hard:
                tainted.setdefault(new, []).append(finding.name)
        by_node = self._gpus_by_node
        left = by_node | {
            node.node: min(node.before, node.after) for node in self._nodes.values() if node.pool
        }
        for taint, names in tainted.items():
            if total := sum(left.get(name, 0) for name in names):
                restriction = Restriction.TAINT
                yield Limit(
                    what=restriction,
                    nodes=tuple(names),
                    gpus=total,
                    detail=printable(str(taint)),
                    evicts=taint.evicts,
                )
        if self.inspection.unreachable:
            restriction, why = Restriction.NOT_INSPECTED, printable(self.inspection.unreachable)
            yield Limit(what=restriction, nodes=(), gpus=sum(by_node.values()), detail=why)
        unreached = difference.hosts.unreached
        names = [host.node for host in self.hosts if host.name in unreached]
        if total := sum(by_node.get(name, 0) for name in names):
            yield Limit(what=Restriction.NOT_INSPECTED, nodes=tuple(names), gpus=total)

    def _versions(self) -> Iterator[VersionChange]:
        difference = self._difference
        for finding in difference.platform.chart:
            software = f"chart {self.platform.chart}"
            yield _version_change(
                software,
                (finding.name.removeprefix("release "),),
                finding.was,
                finding.now,
                difference.platform.values,
            )
        control_plane = difference.rollout.upgraded
        if control_plane:
            server = difference.rollout.server.removeprefix("v")
            yield _version_change(
                "Kubernetes control plane",
                tuple(control_plane.hosts.values()),
                server,
                control_plane.version,
            )
        pairs: dict[tuple[str, str, str], list[str]] = {}
        for node, was, now in self._drivers():
            pairs.setdefault(("driver", was, now), []).append(node)
        for change in difference.rollout.changes:
            for step in change.steps:
                if step.versions and step.step != "driver":
                    pairs.setdefault((step.step, *step.versions), []).append(change.host.name)
        for (software, was, now), names in pairs.items():
            yield _version_change(software, tuple(names), was, now)

    def _driver_of(self, node: str) -> DriverSettings:
        change = self._nodes.get(node)
        return self.nodes.driver_of(node, (change and change.pool) or "")

    def _drivers(self) -> Iterator[tuple[str, str, str]]:
        """Yield the nodes whose NVIDIA driver changes, with the loaded and the desired version."""
        hosts = {host.node: host for host in self.hosts}
        names = [node for node, gpus in self._nodes.items() if gpus.pool and gpus.after]
        for name in dict.fromkeys((*names, *(host.node for host in self.hosts if host.gpus))):
            host = hosts.get(name)
            desired = _driver_version(self._driver_of(name), host, self.platform.version)
            facts = self.inspection.hosts.get(host.name) if host else None
            loaded = (facts.driver if facts and not facts.error else "") or ""
            was = loaded or self.inspection.drivers.get(name, "")
            is_known = bool(facts and not facts.error) or bool(was)
            is_left_alone = host is not None and host.name in self._difference.rollout.left
            if (
                desired
                and is_known
                and not is_left_alone
                and was != desired
                and not was.startswith(f"{desired}.")
            ):
                yield (host.name if host else name), was, desired


def _drain_blockers(difference: Difference) -> Iterator[str]:
    """Yield the reasons why nodes can't be drained or must not be changed."""
    yield from plan.blockers(difference.rollout)
    for name in difference.layouts.names:
        yield from plan.blocked(name, difference.layouts.view(name))


def _change_notes(difference: Difference) -> Iterator[str]:
    """Yield notes about skipped hosts and nodes, blocking PodDisruptionBudgets, and other hosts."""
    rollout, layouts = difference.rollout, difference.layouts
    for host, reason in rollout.left.items():
        yield printable(f"host {host} left alone: {reason}")
    for name, reason in layouts.left.items():
        yield printable(f"node {name} left alone: {reason}")
    rolled = {change.host.node: rollout.views[change.host.node] for change in rollout.nodes}
    views = {**rolled, **{name: layouts.view(name) for name in layouts.names}}
    for name, view in views.items():
        if view.budgets:
            budgets = ", ".join(view.budgets)
            yield printable(f"node {name}: waits until PodDisruptionBudget {budgets} allows it")
    outside = [
        change.host.name for change in rollout.changes if change.host.node not in rollout.views
    ]
    if outside:
        yield printable(f"changed immediately, not in the cluster: {', '.join(outside)}")


def _uninspected_parts(inspection: Inspection) -> Iterator[str]:
    if inspection.unreachable:
        yield inspection.unreachable
    for host, facts in inspection.difference.hosts.unreached.items():
        yield printable(f"host {host}: {facts.error}")


def _evicted_pods(difference: Difference) -> Iterator[PodChange]:
    rollout, layouts = difference.rollout, difference.layouts
    rolled = {change.host.node: rollout.views[change.host.node] for change in rollout.nodes}
    views = {**rolled, **{name: layouts.view(name) for name in layouts.names}}
    evicted: set[tuple[str, str]] = set()
    for node, view in views.items():
        for pod in view.pods:
            evicted.add((pod.namespace, pod.name))
            yield PodChange(
                namespace=pod.namespace,
                name=pod.name,
                node=node,
                gpus=pod.gpus,
                loss=Loss.EVICTED,
                cause=Cause.DRAIN,
                recreated=pod.recreated,
            )
    for lost in difference.losses:
        pod = lost.pod
        if (pod.namespace, pod.name) not in evicted:
            yield PodChange(
                namespace=pod.namespace,
                name=pod.name,
                node=lost.node,
                gpus=pod.gpus,
                loss=lost.loss,
                cause=lost.cause,
                recreated=pod.recreated,
            )


def _at_most(names: Iterable[str], waves: Iterable[Wave], by_node: Mapping[str, int]) -> int:
    """Return the largest number of GPUs of the named nodes that the waves take down together."""
    chosen = set(names)
    return max(
        sum(sorted((by_node.get(n, 0) for n in wave if n in chosen), reverse=True)[:at_once])
        for wave, at_once in waves
    )


def _drain_reasons(change: plan.Change, difference: Difference, driver: str) -> list[str]:
    """Return the reasons to drain a node: a new driver version, and edited settings of its host.

    Args:
        change: Change of the host in the rollout.
        difference: What the run changes.
        driver: Old and new version of the driver. Empty: the driver does not change.
    """
    findings = [
        _word_finding(finding)
        for finding in difference.hosts.by_host.get(change.host.name, ())
        if finding.kind is Kind.CHANGE and not finding.first and finding.aspect is not Aspect.STEP
    ]
    # Settings of the stack file are named before what follows from them, such as packages.
    findings.sort(key=lambda finding: finding.aspect not in (Aspect.SETTING, Aspect.SYSCTL))
    edits = list(map(_finding_text, findings))
    by_driver = [driver] if driver and any(s.step == "driver" for s in change.steps) else []
    other_steps = [step.text for step in change.steps if step.step != "driver"]
    if by_driver and not other_steps:
        return by_driver
    return [*by_driver, *(edits[:REASONS] if edits else other_steps)]


def _driver_version(driver: DriverSettings, host: DesiredHost | None, chart: str) -> str:
    """Return the version of the driver that the run installs; empty if it installs none."""
    if driver.source is DriverSource.PREINSTALLED or (driver.by_preparation and host is None):
        return ""
    if driver.managed_by_operator and not driver.version:
        return operator_part(chart, "driver")
    return driver.version or ""


def _version_change(
    software: str, names: tuple[str, ...], was: str, now: str, values: Collection[str] = ()
) -> VersionChange:
    """Return a change of software's version, with what the software's makers say about it.

    Args:
        values: Paths of the values that the installed release of a chart sets.
    """
    before, after = version(was.removeprefix("v")), version(now.removeprefix("v"))
    direction = Direction.OTHER
    if before and after and before != after:
        direction = Direction.UPGRADE if after > before else Direction.DOWNGRADE
    return VersionChange(
        part=software,
        where=tuple(map(printable, names)),
        was=printable(was),
        now=printable(now),
        direction=direction,
        support=upgrade_path(software, was, now, values),
    )


def _join_statements(findings: Iterable[Finding]) -> tuple[Statement, ...]:
    """Return one statement for all findings with equal text; digests are replaced by words."""
    names: dict[Finding, list[str]] = {}
    for finding in map(_word_finding, _join_moves(findings)):
        subject_names = names.setdefault(replace(finding, name=""), [])
        if finding.name not in subject_names:
            subject_names.append(finding.name)
    return tuple(
        Statement(
            subject=finding.subject.value,
            names=tuple(map(printable, subject_names)),
            aspect=finding.aspect,
            key=printable(finding.key),
            was=printable(finding.was),
            now=printable(finding.now),
            first=finding.first,
        )
        for finding, subject_names in names.items()
    )


def _join_moves(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; join the finding about a node's old pool and that about its new pool."""
    all_findings = tuple(findings)
    pools = [
        pool_finding
        for pool_finding in all_findings
        if (pool_finding.subject, pool_finding.aspect) == (Subject.NODE, Aspect.POOL)
    ]
    was = {
        pool_finding.name: pool_finding.was.partition(",")[0]
        for pool_finding in pools
        if pool_finding.was
    }
    now = {pool_finding.name: pool_finding.now for pool_finding in pools if pool_finding.now}
    for finding in all_findings:
        if finding not in pools:
            yield finding
        elif finding.now or finding.name not in now:
            name = finding.name
            yield replace(finding, was=was.get(name, ""), now=now.get(name, ""))


def _finding_text(finding: Finding) -> str:
    """Return a finding as text without its host or node: `driver.version 570.1 → 580.2`."""
    if not finding.was and not finding.now:
        return finding.what
    return f"{finding.what} {finding.was or 'not declared'} → {finding.now or 'not declared'}"


def _word_finding(finding: Finding) -> Finding:
    """Return a finding that names the stack file's setting, and words in place of a digest."""
    if finding.aspect is Aspect.SCRIPT:
        return replace(finding, key="", was="", now="")
    if finding.aspect not in (Aspect.RECORDED, Aspect.SETTING):
        return finding
    if finding.subject is Subject.NODE and finding.key == "gpusPerNode":
        return replace(finding, key=EXPECTED_GPUS)
    if finding.key in PATHS:
        finding = replace(finding, aspect=Aspect.SETTING, key=PATHS[finding.key])
    digests = [is_digest(value) for value in (finding.was, finding.now) if value]
    if finding.kind is not Kind.CHANGE or not any(digests):
        return finding
    path = DIGESTED.get(finding.key, finding.key)
    if finding.subject is Subject.NODE and finding.key in DIGESTED:
        return replace(finding, key=path, was="", now="")
    was, now = ("" if is_digest(value) else value for value in (finding.was, finding.now))
    return replace(finding, key=path, was=was, now=now)
