"""Turn a stack file into the desired state.

Only this module reads the whole stack file. It creates the object of the platform. The settings of
the stack are already merged into those of pools and hosts (`gpu_cluster.loading.inventory`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from gpu_cluster.charts.availability import WantedChart
from gpu_cluster.desired.host import DesiredHost, Upgrade, working
from gpu_cluster.desired.kubeadm_cluster import DesiredKubeadmCluster
from gpu_cluster.desired.monitoring import DesiredMonitoring, WatchedPool
from gpu_cluster.desired.nodes import DesiredNode, DesiredNodes
from gpu_cluster.desired.parts import WHOLE, Part
from gpu_cluster.desired.pod_template import pod_spec, template
from gpu_cluster.desired.pool import POOL_LABEL, DesiredScheduling, OwnScheduling, PoolScheduling
from gpu_cluster.desired.question import Question
from gpu_cluster.desired.rollout import DesiredMigLayouts, DesiredRollout, Operands, PoolLayout
from gpu_cluster.desired.rules_context import rules_context, trusted_of_platform
from gpu_cluster.desired.scheduling_classes import (
    is_by_rule,
    limit_range,
    node_feature_rule,
    priority_class,
)
from gpu_cluster.desired.validation import (
    LEFT_OUT,
    DesiredValidation,
    MeasuredPool,
    MeasuredTest,
    Measuring,
    PoolValidation,
)
from gpu_cluster.kubernetes.labels import field_manager, pool_manager
from gpu_cluster.kubernetes.resources import LAYOUTS, MIG_LABEL
from gpu_cluster.platforms.base import Delivery, Platform, Trait
from gpu_cluster.platforms.discovery import SECTIONS, named, section_of
from gpu_cluster.platforms.needed import registries
from gpu_cluster.platforms.own_namespaces import OwnNamespace, own_namespaces
from gpu_cluster.platforms.requests import Expected, PresenceRequest
from gpu_cluster.platforms.site import Site
from gpu_cluster.platforms.validate_cluster import Declared
from gpu_cluster.settings.chart_source import ChartSource
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster.settings.cluster import Cluster
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.guardrails import GuardrailsSettings
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.reboot import RebootWhen
from gpu_cluster.settings.hosts.sections import HostSections, NodeSections, StackSections
from gpu_cluster.settings.hosts.ssh import SshLimits
from gpu_cluster.settings.monitoring import MonitoringSettings
from gpu_cluster.settings.nodes.pool import Pool
from gpu_cluster.settings.validation import ValidationSettings
from gpu_rules.context import Context

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Desired:
    """The desired state of a stack.

    Attributes:
        identifier: Identifier that distinguishes the cluster from another cluster with the same
            context.
        hosts: All hosts, in the order of the stack file.
        nodes: Settings of all nodes, after stack, pool, host and node are laid over each other.
        platform: The platform that advertises GPUs, with its settings.
        kubeadm: The cluster that the stack creates; None if the cluster exists without the stack.
        rollout: Limits of changes that make nodes unavailable.
        layouts: MIG layouts of the nodes.
        operands: Selectors of the platform's own pods on GPU nodes.
        scheduling: Node labels, taints and scheduling objects.
        validation: Pools and tests to validate.
        monitoring: GPU monitoring; None if the stack file has no section `monitoring`.
        namespaces: Namespaces that the stack creates.
        registries: Registries that GPU pods need, as `host:port`.
        chart: Source and digest of the platform's chart; None if it has no chart.
        presence: Objects of the platform that must exist in the cluster.
        rules: Facts about the stack that the policy rules use.
        guardrails: Section `guardrails`, or None.
        installer: Settings of the driver's DaemonSet; None if the driver has another source.
        charts: Section `charts`: where charts come from.
        wanted: Declared settings that the inspection compares with the cluster.
        maintenance: Hosts and nodes in maintenance, as written in the stack file.
        unsupported: By software, the version from which an unsupported upgrade is accepted.
        parts: Parts of the cluster that the program declares; another program may declare others.
    """

    stack: str
    context: str
    identifier: str
    hosts: tuple[DesiredHost, ...]
    nodes: DesiredNodes
    platform: Platform
    kubeadm: DesiredKubeadmCluster | None
    rollout: DesiredRollout
    layouts: DesiredMigLayouts
    operands: Operands
    scheduling: DesiredScheduling
    validation: DesiredValidation
    monitoring: DesiredMonitoring | None
    namespaces: tuple[OwnNamespace, ...]
    registries: tuple[str, ...]
    chart: WantedChart | None
    presence: PresenceRequest
    rules: Context
    guardrails: GuardrailsSettings | None
    installer: DriverInstallerSettings | None
    charts: ChartsSettings
    wanted: Declared
    maintenance: tuple[str, ...]
    unsupported: Mapping[str, str]
    parts: frozenset[Part] = WHOLE

    @property
    def has_platform(self) -> bool:
        """Return whether the program installs the platform and labels the nodes."""
        return Part.PLATFORM in self.parts

    @property
    def has_validation(self) -> bool:
        """Return whether the program validates the pools."""
        return Part.VALIDATION in self.parts

    @property
    def newcomers(self) -> tuple[DesiredHost, ...]:
        """Return the hosts that join a cluster in a run, without hosts in maintenance."""
        joining = self.kubeadm.joining if self.kubeadm else ()
        return working(host for host in self.hosts if host.joins) or working(joining)

    @property
    def privileged_namespaces(self) -> frozenset[str]:
        """Return the namespaces of the stack and its platform whose pods may be privileged."""
        own_names = (space.name for space in self.namespaces if space.privileged)
        return trusted_of_platform(self.platform).union(own_names)

    @property
    def question(self) -> Question:
        """Return the input of the inspection of the cluster."""
        joining = tuple(sorted(host.node for host in self.newcomers))
        pools = tuple(replace(pool, joining=joining) for pool in self.layouts.pools)
        return Question(
            context=self.context,
            scheduling=tuple(replace(pool, joining=joining) for pool in self.scheduling.pools),
            by_rule=self.scheduling.by_rule,
            validation=tuple(
                replace(pool, joining=joining)
                for pool in self.validation.pools
                if self.has_validation
            ),
            presence=self.presence,
            values=self.platform.installation.values,
            # If hosts with GPUs are declared, they report which endpoints they can reach.
            endpoints=[]
            if any(host.role.has_gpus for host in self.hosts)
            else sorted(self.platform.endpoints().values()),
            service_address=self.platform.service_address,
            own=[space.name for space in self.namespaces],
            pods=self.platform.installation.namespaces,
            manager=field_manager(self.stack),
            chart=self.chart,
            layouts=replace(self.layouts, pools=pools),
            overrides=self.platform.node_overrides if self.has_platform else (),
            operand_overrides=self.platform.operand_overrides if self.has_platform else (),
        )

    def narrowed(self, parts: Collection[Part]) -> Desired:
        """Return the desired state of some parts of a cluster.

        The inspection then reads only these parts, so it reports no differences of parts that
        another Pulumi program declares.

        Args:
            parts: The parts to keep.
        """
        desired = replace(self, parts=frozenset(parts))
        if Part.HOSTS not in parts:
            pools = tuple(replace(pool, hosts={}) for pool in desired.validation.pools)
            desired = replace(
                desired, hosts=(), kubeadm=None, validation=replace(desired.validation, pools=pools)
            )
        if Part.PLATFORM not in parts:
            desired = replace(
                desired,
                scheduling=DesiredScheduling(pools=()),
                layouts=replace(desired.layouts, pools=(), selector=""),
                presence=replace(desired.presence, release=None, objects=()),
                chart=None,
                installer=None,
                monitoring=None,
            )
        if Part.GUARDRAILS not in parts:
            desired = replace(desired, guardrails=None)
        return desired


def resolve(cluster: Cluster, stack: str) -> Desired:
    """Return the desired state of a stack.

    Args:
        cluster: The stack file's content, as `gpu_cluster.loading.loader.load` returns it.
    """
    return _Resolver(cluster, stack).desired()


@dataclass(frozen=True)
class _Resolver:
    """Converter of a stack file into the desired state, with one method per field of `Desired`."""

    cluster: Cluster
    stack: str

    @cached_property
    def platform(self) -> Platform:
        """Return the platform, built from its section and other settings of the stack."""
        cluster, name = self.cluster, self.cluster.platform
        installer = cluster.installer
        site = Site(
            context=cluster.kubernetes.context,
            platform=name,
            pools=cluster.pools,
            nodes=cluster.scheduling.nodes,
            more_tolerations=cluster.scheduling.tolerations,
            has_hosts=bool(cluster.hosts),
            plugin_memory=installer.plugin_memory if installer else None,
            registry=cluster.registry,
            proxy=cluster.proxy,
            adopted=cluster.adopted,
        )
        return named(name)(getattr(cluster, section_of(name), None), site)

    @cached_property
    def pool_of(self) -> dict[str, Pool]:
        """Return the pool of each node that a pool lists by name, by node name."""
        return {node: pool for pool in self.cluster.pools for node in pool.node_names}

    @cached_property
    def host_of(self) -> dict[str, tuple[Host, DesiredHost]]:
        """Return the declared and the desired host of each node, by node name."""
        pairs = zip(self.cluster.hosts, self.hosts, strict=True)
        return {host.node: (declared, host) for declared, host in pairs}

    @cached_property
    def first(self) -> Host | None:
        """Return the control-plane host that runs `kubeadm init`, or None without a new cluster."""
        if self.cluster.kubernetes_packages.init is None:
            return None
        return next((host for host in self.cluster.hosts if host.role.is_control_plane), None)

    @cached_property
    def hosts(self) -> tuple[DesiredHost, ...]:
        """Return the desired state of all hosts."""
        return tuple(map(self.host, self.cluster.hosts))

    def desired(self) -> Desired:
        """Return the desired state of the stack."""
        return Desired(
            stack=self.stack,
            context=self.cluster.kubernetes.context,
            identifier=self.cluster.kubernetes.identifier,
            hosts=self.hosts,
            nodes=self.nodes,
            platform=self.platform,
            kubeadm=self.kubeadm(),
            rollout=self.rollout(),
            layouts=self.layouts(),
            operands=self.operands(),
            scheduling=self.scheduling(),
            validation=self.validation(),
            monitoring=self.monitoring(),
            namespaces=self.namespaces,
            registries=registries(self.platform, *self.beside),
            chart=self.chart(),
            presence=self.presence(),
            rules=self.rules,
            guardrails=self.cluster.guardrails,
            installer=self.cluster.installer,
            charts=self.cluster.charts,
            wanted=Declared(
                engines={host.node: host.sections.runtime.engine for host in self.hosts},
                node_features=self.cluster.scheduling.node_features,
                guardrails=self.cluster.guardrails is not None,
                priority_classes=frozenset(
                    priority.name for priority in self.cluster.scheduling.priority_classes
                ),
            ),
            maintenance=self.cluster.maintenance,
            unsupported={
                software.value: version
                for software, version in self.cluster.rollout.unsupported_from.items()
            },
        )

    def host(self, host: Host) -> DesiredHost:
        """Return the desired state of one host."""
        cluster, pool = self.cluster, self.pool_of.get(host.node)
        delivery = self.platform.delivery
        left_to_us = not self.platform.engines.configured
        left_out = pool.unhealthy_devices.get(host.node) if pool else None
        return DesiredHost(
            name=host.name,
            node=host.node,
            role=host.role,
            address=host.address,
            port=host.port,
            user=host.user,
            host_key=host.host_key,
            bastion=host.bastion,
            ssh=SshLimits.model_construct(
                **{name: getattr(cluster.ssh, name) for name in SshLimits.model_fields}
            ),
            sections=HostSections.model_construct(  # The sections are validated already.
                **{name: getattr(cluster, name) for name in StackSections.model_fields},
                **dict(host.sections),
            ),
            in_maintenance=cluster.in_maintenance(host),
            joins=self.joins(host),
            upgrade=self.upgrade_of(host),
            takes_a_job=self.takes_a_job,
            excluded_gpus=tuple(sorted(left_out.uuid)) if left_out else (),
            pool=pool.name if pool else "",
            gpus=pool.on_the_bus(host.node) if pool else None,
            # If the GPU Operator and this program both write the runtime's configuration, they
            # undo each other's changes. A platform whose device plugin mounts devices itself needs
            # plain runc (tkestack/gpu-manager#78).
            configures_runtime=(
                host.role.has_gpus and left_to_us and delivery is not Delivery.PLUGIN
            ),
            uses_toolkit=left_to_us and delivery is Delivery.RUNTIME,
            takes_cgroup_v1=Trait.WANTS_CGROUP_V1 in self.platform.traits,
            runs_imex=self.platform.runs_imex,
            validation_image=cluster.validation.image,
        )

    def joins(self, host: Host) -> bool:
        """Return whether the preparation joins a host to an existing cluster."""
        return self.cluster.kubernetes_packages.join is not None and not host.role.is_control_plane

    def upgrade_of(self, host: Host) -> Upgrade:
        """Return the subcommand of `kubeadm upgrade` that a host runs."""
        if self.first is None:
            return Upgrade.NODE if self.joins(host) else Upgrade.NONE
        if not host.role.is_control_plane:
            return Upgrade.NODE
        return Upgrade.APPLY if host == self.first else Upgrade.MEMBER

    @cached_property
    def takes_a_job(self) -> bool:
        """Return True if some node can run kubeadm's Job, which tolerates control-plane taints."""
        tainted = {
            node
            for pool in self.cluster.pools
            for pool_part in self.platform.site.parts(pool)
            if any(taint.node_taint.is_hard for taint in pool_part.taints)
            for node in pool_part.node_names
        }
        return any(host.node not in tainted for host in self.cluster.hosts)

    def kubeadm(self) -> DesiredKubeadmCluster | None:
        """Return the cluster that the stack creates, or None if the stack creates no cluster."""
        init, first = self.cluster.kubernetes_packages.init, self.first
        if init is None or first is None:
            return None
        return DesiredKubeadmCluster(
            first=next(host for host in self.hosts if host.name == first.name),
            joining=tuple(host for host in self.hosts if host.name != first.name),
            init=init,
            context=self.cluster.kubernetes.context,
            identifier=self.cluster.kubernetes.identifier,
            charts=self.cluster.charts,
        )

    def rollout(self) -> DesiredRollout:
        """Return the settings that limit how many nodes may be unavailable at the same time."""
        rollout, reboot = self.cluster.rollout, self.cluster.reboot
        return DesiredRollout(
            context=self.cluster.kubernetes.context,
            makes_cluster=self.first is not None,
            max_unavailable=rollout.max_unavailable,
            drain_timeout_seconds=rollout.drain_timeout_seconds,
            consent=tuple(sorted(rollout.evict)),
            boots=reboot.when is RebootWhen.REQUIRED,
            boot_timeout_seconds=reboot.timeout_seconds,
        )

    def layouts(self) -> DesiredMigLayouts:
        """Return the MIG layouts of the pools with GPUs."""
        node_settings = self.cluster.scheduling.nodes
        labelled = {name for name, node in node_settings.items() if MIG_LABEL in node.labels}
        # MIG layouts of an adopted platform are not changed.
        adopted = self.platform.installation.is_adopted
        mig_layouts = None if adopted else self.platform.layouts
        return DesiredMigLayouts(
            manager=self.layouts_manager,
            maintenance=tuple(sorted(self.cluster.nodes_in_maintenance)),
            pools=tuple(
                PoolLayout(
                    **self.members(pool),
                    layout=mig_layouts.of(pool),
                    excluded=tuple(sorted(labelled & set(pool.node_names))),
                )
                for pool in self.platform.site.gpu_pools
                if mig_layouts is not None
            ),
            namespace=self.platform.installation.namespace,
            selector=mig_layouts.pods if mig_layouts else "",
            timeout_seconds=self.cluster.validation.timeout_seconds,
        )

    @cached_property
    def beside(
        self,
    ) -> tuple[ValidationSettings, DriverInstallerSettings | None, MonitoringSettings | None]:
        """Return the sections `validation`, `driverInstaller`, `monitoring`, which add images."""
        return self.cluster.validation, self.cluster.installer, self.cluster.monitoring

    @cached_property
    def namespaces(self) -> tuple[OwnNamespace, ...]:
        """Return the namespaces that the stack creates."""
        return own_namespaces(self.platform, *self.beside)

    def chart(self) -> WantedChart | None:
        """Return the source, version and digest of the platform's chart; None without a chart."""
        installation = self.platform.installation
        if installation.release is None:
            return None
        name, version = self.platform.chart, installation.version
        source = ChartSource(self.cluster.charts, name, self.platform.repository, version)
        return WantedChart(
            place=source.location,
            chart=name,
            version=version,
            digest=source.digest,
            values=installation.values,
            unknown=getattr(self.platform.settings, "unknown_version", False),
        )

    def presence(self) -> PresenceRequest:
        """Return the objects that must exist: the Helm release and additional objects.

        Objects that need a secret of the stack are excluded, because somebody else may create them
        if the stack lacks the secret.
        """
        installation, installer = self.platform.installation, self.cluster.installer
        objects = [
            _expect_object(declared.manifest)
            for declared in installation.objects
            if not declared.secret
        ]
        objects += [
            program_object
            for program in installation.programs
            for program_object in program.objects
        ]
        if installer is not None:
            objects += [
                Expected(
                    "apps/v1",
                    "DaemonSet",
                    installer.namespace,
                    f"nvidia-driver-installer-{pool.name}",
                )
                for pool in self.platform.site.gpu_pools
                if pool.driver.managed_by_daemonset
            ]
        return PresenceRequest(
            context=self.cluster.kubernetes.context,
            platform=self.cluster.platform,
            release=installation.release,
            version=installation.version,
            objects=tuple(objects),
        )

    def monitoring(self) -> DesiredMonitoring | None:
        """Return the GPU monitoring, or None if the stack file has no section `monitoring`."""
        settings, out = self.cluster.monitoring, self.cluster.nodes_in_maintenance
        if settings is None:
            return None
        return DesiredMonitoring(
            stack=self.stack,
            settings=settings,
            pools=tuple(
                WatchedPool(
                    name=pool.name,
                    nodes=tuple(name for name in pool.node_names if name not in out),
                    gpus=self.working_gpus(pool),
                )
                for pool in self.platform.site.gpu_pools
                if pool.nodes is not None
            ),
        )

    def operands(self) -> Operands:
        """Return the selectors of the platform's own pods on GPU nodes."""
        spaces = {space.name for space in self.namespaces}
        installation = self.platform.installation
        return Operands(
            spaces=tuple(sorted(spaces - {self.cluster.validation.namespace})),
            namespace=self.platform.installation.namespace,
            labels=dict(label.split("=", 1) for label in installation.servers.pods.split(",")),
        )

    @cached_property
    def counted_pools(self) -> tuple[Pool, ...]:
        """Return the GPU pools, split so that all nodes of a pool advertise the same devices.

        Nodes with unhealthy GPUs, and nodes whose own labels change what they advertise, become
        separate pools with the number of GPUs in their name.
        """
        return tuple(
            pool_part
            for pool in self.platform.site.gpu_pools
            for pool_part in self.equal_parts(pool)
        )

    def equal_parts(self, pool: Pool) -> Iterator[Pool]:
        """Yield the parts of a pool whose nodes all advertise the same devices."""

        def advertised(pool_part: Pool) -> str:
            return _digest_value([asdict(offer) for offer in self.platform.offers(pool_part)])

        equal_pools: dict[tuple[int, str], list[Pool]] = {}
        for pool_part in self.platform.site.parts(pool):
            equal_pools.setdefault((pool_part.gpus_per_node, advertised(pool_part)), []).append(
                pool_part
            )
        for (gpus, offers), equal in equal_pools.items():
            name = pool.name if gpus == pool.gpus_per_node else f"{pool.name}-x{gpus}"
            if offers != advertised(pool.model_copy(update={"gpus_per_node": gpus})):
                name = f"{pool.name}-x{gpus}-{offers[:4]}"
            nodes = tuple(node for pool_part in equal for node in pool_part.nodes or ()) or None
            yield equal[0].model_copy(update={"name": name, "nodes": nodes})

    @property
    def layouts_manager(self) -> str:
        """Return the field manager of the node label that names the MIG layout."""
        return f"{field_manager(self.stack)}{LAYOUTS}"

    def manager(self, pool: Pool) -> str:
        """Return the field manager of a pool's labels; it is the same in every run."""
        return pool_manager(self.stack, pool.name)

    def working_gpus(self, pool: Pool) -> int:
        """Return the number of GPUs that a pool advertises, excluding nodes in maintenance."""
        left_out = {node: devices.count for node, devices in pool.unhealthy_devices.items()}
        out = self.cluster.nodes_in_maintenance.intersection(pool.node_names)
        return pool.gpus - sum(pool.gpus_per_node - left_out.get(name, 0) for name in out)

    def members(self, pool: Pool) -> Json:
        """Return the values of the `Members` fields for a pool."""
        out = self.cluster.nodes_in_maintenance
        members: Json = {"context": self.cluster.kubernetes.context, "pool": pool.name}
        if pool.nodes is not None:
            names = pool.node_names
            nodes = tuple(name for name in names if name not in out)
            resting = tuple(name for name in names if name in out)
            return {**members, "nodes": nodes, "maintenance": resting}
        resting = tuple(sorted(out - self.pool_of.keys()))
        selected = {"selector": dict(pool.selector or {}), "count": pool.size}
        return {**members, **selected, "maintenance": resting}

    def labels(self, pool: Pool) -> dict[str, str]:
        """Return the labels of a pool's nodes: labels of the platform and declared labels."""
        declared = dict(pool.labels)
        if not pool.gpus_per_node:
            return declared
        if self.cluster.adopted is None:
            declared = {**self.platform.labels(pool), **declared}
        if self.platform.layouts:
            # The program `gpu_cluster.rollout.mig_layouts` changes the MIG label, in waves.
            declared.pop(MIG_LABEL, None)
        if pool.driver.managed_by_daemonset and pool.selector is None:
            declared[POOL_LABEL] = pool.name
        return declared

    def scheduling(self) -> DesiredScheduling:
        """Return the node labels, taints and scheduling objects of the stack."""
        section, pools = self.cluster.scheduling, self.cluster.pools
        by_rule = [pool for pool in pools if is_by_rule(section.node_features, pool)]
        return DesiredScheduling(
            pools=tuple(map(self.pool_scheduling, pools)),
            by_rule=frozenset(pool.name for pool in by_rule),
            objects={
                **{
                    f"priority-{priority.name}": priority_class(priority)
                    for priority in section.priority_classes
                },
                **{
                    f"limit-{limit.namespace}": limit_range(
                        limit, self.platform.limit(limit.max_cards)
                    )
                    for limit in section.limits
                },
                **{
                    f"rule-{pool.name}": node_feature_rule(pool, self.labels(pool), self.stack)
                    for pool in by_rule
                },
            },
        )

    def pool_scheduling(self, pool: Pool) -> PoolScheduling:
        """Return the labels and taints of a pool's nodes."""
        pool_parts = self.platform.site.parts(pool)
        offers = {
            offer.resource: offer
            for pool_part in pool_parts
            for offer in (self.platform.offers(pool_part) if pool.has_startup_taint else ())
        }
        handed = {MIG_LABEL: self.layouts_manager} if self.platform.layouts else {}
        return PoolScheduling(
            **self.members(pool),
            manager=self.manager(pool),
            labels=self.labels(pool),
            taints=tuple(taint.plain for taint in pool.taints),
            startup_taint=pool.has_startup_taint,
            resources=tuple(offers),
            namespace=self.cluster.validation.namespace,
            hands_over=handed,
            together=True,
            stack=self.stack,
            gpus=pool.gpus_per_node,
            gpus_by_node={
                node: pool.gpus_per_node - devices.count
                for node, devices in pool.unhealthy_devices.items()
            },
            by_node={
                name: OwnScheduling(
                    labels=self.nodes.by_name[name].labels, taints=self.nodes.by_name[name].taints
                )
                for name in pool.node_names
                if name in self.cluster.scheduling.nodes
            },
        )

    @cached_property
    def nodes(self) -> DesiredNodes:
        """Return the settings of all nodes, each with those of its pool and its host."""
        hosts = {host.node: host for host in self.cluster.hosts}
        by_name = {
            node: DesiredNode(pool="", gpus=int(host.role.has_gpus), sections=host.sections)
            for node, host in hosts.items()
        }
        for pool in self.cluster.pools:
            for pool_part in self.platform.site.parts(pool):
                shared = self.node(pool_part)
                for name in pool_part.node_names:
                    sections = hosts[name].sections if name in hosts else shared.sections
                    gpus = pool.on_the_bus(name)
                    by_name[name] = replace(shared, gpus=gpus, sections=sections)
        by_pool = {pool.name: self.node(pool) for pool in self.cluster.pools}
        return DesiredNodes(by_pool=by_pool, by_name=by_name)

    def node(self, pool: Pool) -> DesiredNode:
        """Return the settings that the nodes of a pool share."""
        return DesiredNode(
            pool=pool.name,
            gpus=pool.gpus_per_node,
            sections=pool.sections,
            labels=self.labels(pool),
            taints=tuple(taint.plain for taint in pool.taints),
        )

    @cached_property
    def release(self) -> str:
        """Return the platform's Helm release as `namespace/name`; empty if there is none."""
        release = self.platform.installation.release
        return f"{release.namespace}/{release.name}" if release else ""

    def proven(self, pool: Pool, sections: NodeSections) -> dict[str, str]:
        """Return the settings that a node's validation depends on; long values as short digests.

        If one of these settings changes, the node must be validated again.

        Args:
            pool: Pool of the node.
            sections: Sections of the node's host, or of the pool.
        """
        cluster, driver, runtime = self.cluster, sections.driver, sections.runtime
        platforms = {key: getattr(cluster, name, None) for key, name in SECTIONS.items()}
        return {
            "gpusPerNode": str(pool.gpus_per_node),
            "mig": _digest_value(pool.model_dump(mode="json", include={"mig"})),
            "registry": _digest_value(cluster.registry.model_dump(mode="json")),
            "validation.image": cluster.validation.image,
            "validation.command": _digest_value(cluster.validation.command),
            "driver.source": driver.source.value,
            "driver.version": driver.version or "any",
            "driver": _digest_value(driver.model_dump(mode="json", exclude={"source", "version"})),
            "runtime.engine": runtime.engine.value,
            "runtime": _digest_value(runtime.model_dump(mode="json", exclude={"engine"})),
            "platform": str(cluster.platform),
            "release": self.release,
            "driverInstaller": _digest_value(cluster.driver_installer.model_dump(mode="json")),
        } | {
            key: _digest_value(section.model_dump(mode="json", exclude=section.UNPROVEN))
            for key, section in platforms.items()
            if section is not None
        }

    def validation(self) -> DesiredValidation:
        """Return the pools and user-defined tests to validate."""
        validation = self.cluster.validation
        space = validation.namespace
        gpus = sorted({test.gpus for test in validation.tests.values()})
        claims = {number: self.platform.claim(f"test-{number}", space, number) for number in gpus}
        return DesiredValidation(
            context=self.cluster.kubernetes.context,
            namespace=space,
            pools=tuple(map(self.pool_validation, self.counted_pools)),
            pool_of={node: pool.name for node, pool in self.pool_of.items() if pool.gpus_per_node},
            measuring=self.measuring(),
            claim=self.platform.claim(space, space, 1),
            test_claims={number: claim for number, claim in claims.items() if claim},
            registry=self.cluster.registry,
        )

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Return which GPUs each node leaves out, as text, by the node's name."""
        return {
            node: str(devices)
            for pool in self.platform.site.pools
            for node, devices in pool.unhealthy_devices.items()
        }

    def pool_validation(self, pool: Pool) -> PoolValidation:
        """Return the validation of a pool whose nodes all advertise the same devices."""
        validation, settings = self.cluster.validation, self.proven(pool, pool)
        possible_nodes = self.host_of if pool.nodes is None else dict.fromkeys(pool.node_names)
        hosts = {node: host for node in possible_nodes if (host := self.host_of.get(node))}
        proven = {node: self.proven(pool, declared) for node, (declared, _) in hosts.items()}
        for node in possible_nodes:
            if left_out := self.left_out.get(node):
                proven[node] = {**proven.get(node, settings), LEFT_OUT: left_out}
        return PoolValidation(
            **self.members(pool),
            gpus=pool.gpus_per_node,
            offers=self.platform.offers(pool),
            namespace=validation.namespace,
            manager=self.manager(pool),
            timeout_seconds=validation.timeout_seconds,
            busy=str(validation.busy),
            settings=settings,
            own={
                node: node_settings
                for node, node_settings in sorted(proven.items())
                if node_settings != settings
            },
            spaces=self.spaces,
            shared_spaces=tuple(
                space for space in self.spaces if space not in self.rules.trusted_namespaces
            ),
            hosts={
                node: host.target for node, (_, host) in hosts.items() if not host.in_maintenance
            },
            pod=self.pod(pool),
        )

    @cached_property
    def rules(self) -> Context:
        """Return the facts about the stack that the policy rules use."""
        return rules_context(
            self.platform,
            self.cluster.nodes_in_maintenance,
            self.namespaces,
            self.cluster.guardrails,
        )

    @cached_property
    def spaces(self) -> tuple[str, ...]:
        """Return the namespaces of the DaemonSets that provide GPUs to containers."""
        namespaces = {self.platform.installation.namespace}
        if installer := self.cluster.installer:
            namespaces.add(installer.namespace)
        return tuple(sorted(namespaces))

    def pod(self, pool: Pool) -> Json:
        """Return the fields that all validation pods of a pool share."""
        validation, registry = self.cluster.validation, self.cluster.registry
        claim = self.platform.claim(validation.namespace, validation.namespace, 1)
        return template(
            image=registry.deployed(validation.image),
            command=validation.command,
            tolerations=self.platform.site.tolerations_on((pool,)),
            runtime_class=None if claim else self.platform.runtime_class,
            pull_secret=registry.pull_secret or None,
            annotations=dict(validation.pod_annotations),
            priority_class=validation.namespace,
            claim_template=claim["metadata"]["name"] if claim else None,
        )

    def measuring(self) -> Measuring:
        """Return the user-defined tests and the pools that they may run on."""
        validation = self.cluster.validation
        return Measuring(
            context=self.cluster.kubernetes.context,
            namespace=validation.namespace,
            busy=str(validation.busy),
            tests=tuple(map(self.test, validation.tests)),
            pools=tuple(
                MeasuredPool(
                    **self.members(pool),
                    gpus=pool.gpus_per_node,
                    offers=self.platform.offers(pool),
                    namespace=validation.namespace,
                    tolerations=tuple(self.platform.site.tolerations_on((pool,))),
                )
                for pool in self.counted_pools
            ),
        )

    def test(self, name: str) -> MeasuredTest:
        """Return a user-defined test by its name."""
        validation, registry = self.cluster.validation, self.cluster.registry
        test = validation.tests[name]
        claim = self.platform.claim(f"test-{test.gpus}", validation.namespace, test.gpus)
        return MeasuredTest(
            name=name,
            image=registry.deployed(test.image),
            command=test.command,
            gpus=test.gpus,
            pattern=test.pattern,
            minimum=test.minimum,
            memory=f"{test.memory_gi}Gi",
            timeout_seconds=test.timeout_seconds,
            annotations=dict(validation.pod_annotations),
            spec=pod_spec(
                runtime_class=None if claim else self.platform.runtime_class,
                pull_secret=registry.pull_secret or None,
                priority_class=validation.namespace,
            ),
            claim_template=claim["metadata"]["name"] if claim else None,
        )


def _expect_object(manifest: Json) -> Expected:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    return Expected(manifest["apiVersion"], manifest["kind"], namespace, metadata["name"])


def _digest_value(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:8]
