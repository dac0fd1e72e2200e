"""A GPU cluster from prepared hosts to counted GPUs, in the order in which a person does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi

from components.driver_daemonset.component import DriverInstaller
from components.hosts.command import HostsArgs
from components.hosts.container_runtime import ContainerRuntime
from components.hosts.preparation import HostPreparation
from components.hosts.reboot import HostReboot, HostRebootArgs
from components.hosts.settings.runtime import DefaultRuntime
from components.monitoring.component import Monitoring, MonitoringArgs
from components.nodes.component import NodeScheduling, NodeSchedulingArgs
from components.platforms.device_plugin.component import DevicePlugin, PlatformArgs
from components.platforms.device_plugin.values import RUNTIME_CLASS
from components.platforms.dra.component import DraDriver
from components.platforms.gpu_manager.component import GpuManager
from components.platforms.gpu_operator.component import GpuOperator
from components.platforms.presence import presence
from components.platforms.settings import Platform
from components.settings.cluster import Cluster
from components.validation.component import Validation, ValidationArgs


@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """What `GpuCluster` needs.

    Attributes:
        cluster: the configuration.
        stack: name of the stack.
        private_key: an OpenSSH private key, a secret; needed where there are hosts.
        registry_credentials: a Docker configuration in JSON, a secret; None: none is given.
        license_token: a client configuration token for vGPU guests, a secret; None: none is given.
        join_token: kubeadm's bootstrap token, a secret; needed where hosts join a cluster.
        prepare_drift: findings by host, of its preparation.
        reboot_drift: why hosts must be rebooted, by host.
        runtime_drift: findings by host, of its container runtime.
        scheduling_drift: findings by pool.
        validation_drift: findings by pool.
        presence_drift: what is missing of the platform.
        groups: API groups that the cluster was seen to serve.
    """

    cluster: Cluster
    stack: str
    private_key: pulumi.Input[str]
    registry_credentials: pulumi.Input[str] | None = None
    license_token: pulumi.Input[str] | None = None
    join_token: str | None = field(default=None, repr=False)
    prepare_drift: Mapping[str, str] = field(default_factory=dict)
    reboot_drift: Mapping[str, str] = field(default_factory=dict)
    runtime_drift: Mapping[str, str] = field(default_factory=dict)
    scheduling_drift: dict[str, str] = field(default_factory=dict)
    validation_drift: dict[str, str] = field(default_factory=dict)
    presence_drift: str | None = None
    groups: frozenset[str] = frozenset()


def runtime_class(cluster: Cluster) -> str | None:
    """RuntimeClass of pods that use GPUs; None where they need none.

    gpu-manager mounts the driver's libraries itself and wants plain runc (gpu-manager#78); the DRA
    driver hands devices over by CDI.
    """
    if cluster.platform in (Platform.GPU_MANAGER, Platform.DRA):
        return None
    if cluster.runtime.default_runtime is DefaultRuntime.NVIDIA:
        return None
    return RUNTIME_CLASS


class GpuCluster(pulumi.ComponentResource):
    """The whole cluster. The Kubernetes provider comes from ``opts.providers``."""

    TYPE = "gpucluster:index:GpuCluster"

    nodes: pulumi.Output[list[dict[str, Any]]]
    charts: pulumi.Output[dict[str, str]]

    def __init__(
        self, name: str, args: GpuClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster = args.cluster

        def after(*resources: pulumi.Resource) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=list(resources))

        hosts = HostsArgs(cluster=cluster, private_key=args.private_key, join_token=args.join_token)
        prepared = HostPreparation(
            f"{name}-hosts", replace(hosts, drift=args.prepare_drift), after()
        )
        rebooted = HostReboot(
            f"{name}-reboot",
            HostRebootArgs(cluster=cluster, private_key=args.private_key, drift=args.reboot_drift),
            after(prepared),
        )
        runtime = ContainerRuntime(
            f"{name}-runtime",
            replace(hosts, drift=args.runtime_drift, after=prepared.commands, gate=rebooted.done),
            after(),
        )
        scheduling = NodeScheduling(
            f"{name}-scheduling",
            NodeSchedulingArgs(cluster=cluster, stack=args.stack, drift=args.scheduling_drift),
            after(),
        )
        if cluster.guardrails is not None:
            # Its twins of all rules cost the import of every stack, so those with guardrails only.
            from components.guardrails.component import Guardrails, GuardrailsArgs

            guarded = GuardrailsArgs(cluster=cluster, guardrails=cluster.guardrails)
            Guardrails(f"{name}-guardrails", guarded, after())
        before: list[pulumi.Resource] = [runtime, scheduling]
        platform_args = PlatformArgs(
            cluster=cluster,
            registry_credentials=args.registry_credentials,
            license_token=args.license_token,
        )
        if cluster.driver.managed_by_daemonset:
            before.append(DriverInstaller(f"{name}-driver", platform_args, after(*before)))
        platform: DevicePlugin | GpuOperator | GpuManager | DraDriver
        match cluster.platform:
            case Platform.DEVICE_PLUGIN:
                chart = "nvidia-device-plugin"
                platform = DevicePlugin(f"{name}-plugin", platform_args, after(*before))
            case Platform.GPU_OPERATOR:
                chart = "gpu-operator"
                platform = GpuOperator(f"{name}-operator", platform_args, after(*before))
            case Platform.GPU_MANAGER:
                chart = "gpu-manager"
                platform = GpuManager(f"{name}-manager", platform_args, after(*before))
            case Platform.DRA:
                chart = "nvidia-dra-driver-gpu"
                platform = DraDriver(f"{name}-dra", platform_args, after(*before))
        checked = presence(
            f"{name}-presence", cluster, args.presence_drift, platform.revision, after(platform)
        )
        validation = Validation(
            f"{name}-validation",
            ValidationArgs(
                cluster=cluster,
                stack=args.stack,
                runtime_class=runtime_class(cluster),
                registry_credentials=args.registry_credentials,
                drift=args.validation_drift,
            ),
            after(platform, checked),
        )
        if cluster.monitoring is not None:
            Monitoring(
                f"{name}-monitoring",
                MonitoringArgs(
                    cluster=cluster,
                    settings=cluster.monitoring,
                    runtime_class=runtime_class(cluster),
                    groups=args.groups,
                    registry_credentials=args.registry_credentials,
                ),
                after(platform),
            )
        self.nodes = validation.nodes
        self.charts = platform.version.apply(lambda version: {chart: version})
        self.register_outputs({"nodes": self.nodes, "charts": self.charts})
