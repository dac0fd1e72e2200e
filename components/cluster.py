"""A GPU cluster from prepared hosts to counted GPUs, in the order in which a person does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi

from components.desired.resolve import resolve
from components.driver_daemonset.component import DriverInstaller, DriverInstallerArgs
from components.guardrails.component import Guardrails, GuardrailsArgs
from components.hosts.command import HostsArgs
from components.hosts.container_runtime import ContainerRuntime
from components.hosts.copies import Copies
from components.hosts.new_cluster import NewCluster, NewClusterArgs
from components.hosts.preparation import HostPreparation
from components.hosts.reboot import HostReboot, HostRebootArgs
from components.inspection.difference import Difference
from components.loading.loader import check
from components.monitoring.component import Monitoring, MonitoringArgs
from components.nodes.component import NodeScheduling, NodeSchedulingArgs
from components.release.component import GpuPlatform, PlatformArgs
from components.release.presence import presence
from components.rollout.component import Rollout, RolloutArgs
from components.rollout.layout_component import Layouts, LayoutsArgs
from components.settings.cluster import Cluster
from components.validation.component import Validation, ValidationArgs


@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """What `GpuCluster` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack.
        private_key: an SSH private key, a secret; needed where there are hosts.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        join_token: kubeadm's bootstrap token, a secret; needed where hosts join a cluster.
        secrets: the stack's secrets that objects of the platform are filled from, by name.
    """

    cluster: Cluster
    stack: str
    private_key: pulumi.Input[str]
    registry_credentials: pulumi.Input[str] | None = None
    join_token: str | None = field(default=None, repr=False)
    secrets: Mapping[str, pulumi.Output[str]] = field(default_factory=dict)


class GpuCluster(pulumi.ComponentResource):
    """The whole cluster.

    The Kubernetes provider comes from ``opts.providers``, or from the cluster that the stack makes.
    """

    TYPE = "gpucluster:index:GpuCluster"

    nodes: pulumi.Output[list[dict[str, Any]]]
    tests: pulumi.Output[list[dict[str, Any]]]
    charts: pulumi.Output[dict[str, str]]
    made: NewCluster | None

    def __init__(
        self,
        name: str,
        args: GpuClusterArgs,
        difference: Difference | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        difference = difference or Difference()
        credentials = args.registry_credentials
        check(args.cluster.parts())
        desired = resolve(args.cluster, args.stack)
        platform = desired.platform

        self.made = None

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(
                parent=self,
                depends_on=[*resources, *([self.made] if self.made else [])],
                providers=[self.made.provider] if self.made else None,
            )

        copies = Copies(f"{name}-steps", args.private_key, difference.hosts.unreached)
        rollout = RolloutArgs(
            rollout=desired.rollout,
            has_hosts=bool(desired.hosts),
            operands=desired.operands,
            pools=desired.validation.pools,
            layouts=desired.layouts,
            private_key=args.private_key,
            plan=difference.rollout,
            join_token=args.join_token,
        )
        rolled = Rollout(f"{name}-rollout", rollout, copies, after())
        hosts = HostsArgs(
            hosts=desired.hosts,
            private_key=args.private_key,
            join_token=args.join_token,
            copies=copies,
            left=frozenset(difference.rollout.left),
            gate=rolled.done,
        )
        prepared = HostPreparation(
            f"{name}-hosts", replace(hosts, findings=difference.hosts.prepare), after()
        )
        rebooted = HostReboot(
            f"{name}-reboot",
            HostRebootArgs(
                hosts=desired.hosts,
                rollout=desired.rollout,
                private_key=args.private_key,
                findings=difference.hosts.reboot,
            ),
            after(prepared),
        )
        runtime = ContainerRuntime(
            f"{name}-runtime",
            replace(
                hosts,
                findings=difference.hosts.runtime,
                after=prepared.commands,
                gate=rebooted.done,
            ),
            after(),
        )
        if desired.kubeadm is not None:
            members = replace(
                hosts,
                findings=difference.hosts.cluster,
                after={**prepared.commands, **runtime.commands},
                gate=rebooted.done,
            )
            self.made = NewCluster(
                f"{name}-cluster",
                NewClusterArgs(cluster=desired.kubeadm, hosts=members, there=difference.context),
                after(),
            )
        joins = any(host.joins for host in desired.hosts)
        scheduling = NodeScheduling(
            f"{name}-scheduling",
            NodeSchedulingArgs(scheduling=desired.scheduling, findings=difference.scheduling.pools),
            after(*([prepared] if joins else [])),
        )
        if desired.guardrails is not None:
            own = frozenset(space.name for space in desired.namespaces if space.privileged)
            guarded = GuardrailsArgs(context=desired.rules, own=own, guardrails=desired.guardrails)
            Guardrails(f"{name}-guardrails", guarded, after())
        ready: list[pulumi.Resource] = [runtime, scheduling]
        served = PlatformArgs(
            charts=desired.charts,
            registry_credentials=credentials,
            secrets=args.secrets,
            unfinished=difference.platform.unfinished,
        )
        if desired.installer is not None:
            installers = DriverInstallerArgs(
                settings=desired.installer,
                site=platform.site,
                registry_credentials=credentials,
            )
            ready.append(DriverInstaller(f"{name}-driver", installers, after(*ready)))
        serving = GpuPlatform(f"{name}-platform", platform, served, after(*ready))
        checked = presence(
            f"{name}-presence",
            desired.presence,
            (*difference.platform.missing, *difference.platform.unfinished),
            serving.revision,
            after(serving),
        )
        layouts = LayoutsArgs(
            rollout=desired.rollout,
            layouts=desired.layouts,
            pools=desired.validation.pools,
            private_key=args.private_key,
            has_hosts=bool(desired.hosts),
            plan=difference.layouts,
        )
        divided: list[pulumi.Resource] = []
        if layouts.needed:
            divided.append(Layouts(f"{name}-layouts", layouts, after(serving, checked)))
        validation = Validation(
            f"{name}-validation",
            ValidationArgs(
                validation=desired.validation,
                registry_credentials=credentials,
                findings=difference.validation.pools,
                private_key=args.private_key,
            ),
            after(serving, checked, *divided),
        )
        if desired.monitoring is not None:
            Monitoring(
                f"{name}-monitoring",
                MonitoringArgs(
                    monitoring=desired.monitoring,
                    platform=platform,
                    groups=difference.groups,
                    registry_credentials=credentials,
                ),
                after(serving),
            )
        self.nodes, self.tests = validation.nodes, validation.tests
        self.charts = serving.version.apply(lambda version: {platform.chart: version})
        self.register_outputs({"nodes": self.nodes, "charts": self.charts})
