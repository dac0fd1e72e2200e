"""Root model of the stack file."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, StrictInt

from gpu_cluster.base.model import Model
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster.settings.device_plugin import DevicePluginSettings
from gpu_cluster.settings.dra import DraSettings
from gpu_cluster.settings.driver_installer import DriverInstallerSettings
from gpu_cluster.settings.gpu_manager import GpuManagerSettings
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_cluster.settings.guardrails import GuardrailsSettings
from gpu_cluster.settings.hami import HamiSettings
from gpu_cluster.settings.hosts.host import Host
from gpu_cluster.settings.hosts.sections import StackSections
from gpu_cluster.settings.hosts.ssh import SshSettings
from gpu_cluster.settings.kubernetes import KubernetesSettings
from gpu_cluster.settings.monitoring import MonitoringSettings
from gpu_cluster.settings.nodes.node_range import NodeNames, written_out
from gpu_cluster.settings.nodes.pool import Pool, gpu_pools
from gpu_cluster.settings.nodes.scheduling import SchedulingSettings
from gpu_cluster.settings.platform import NAMES, PlatformName
from gpu_cluster.settings.registry import RegistrySettings
from gpu_cluster.settings.rollout import RolloutSettings
from gpu_cluster.settings.validation import ValidationSettings


class Members(Model):
    """The members of a cluster (pools of nodes, hosts) and the SSH settings to reach its hosts."""

    version: Literal["v1"] = Field(description="v1, the version of this format", examples=["v1"])
    kubernetes: KubernetesSettings = Field(
        description="a mapping with context", examples=["{context: gpu-cluster-dev}"]
    )
    pools: tuple[Pool, ...] = Field(
        min_length=1,
        description="a list of 1 to 200 pools",
        examples=['[{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]'],
    )
    hosts: tuple[Host, ...] = Field(default=(), description="a list of hosts", examples=["[]"])
    maintenance: NodeNames = Field(
        default=(),
        description="a list of nodes or hosts, or ranges, that are out for repair",
        examples=["[gpu-9]"],
    )
    ssh: SshSettings = Field(default=SshSettings(), description="a mapping: how hosts are reached")


class Cluster(StackSections, Members):
    """A GPU cluster as `gpu_cluster.loading.loader.load` returns it.

    The sections that pools and hosts override (`NodeSections`) are complete in each pool and host,
    and can't be read from the stack. Omitted sections have their default values.
    """

    rollout: RolloutSettings = Field(
        default=RolloutSettings(),
        description="a mapping with maxUnavailable: how nodes are taken out",
    )
    platform: PlatformName = Field(
        description=f"one of {', '.join(NAMES)}", examples=["device-plugin"]
    )
    adopted: AdoptedSettings | None = Field(
        default=None,
        description="a mapping with release or objects: GPU software that stays as it was",
    )
    device_plugin: DevicePluginSettings = Field(
        default=DevicePluginSettings(), description="a mapping: the device plugin's chart"
    )
    gpu_operator: GpuOperatorSettings = Field(
        default=GpuOperatorSettings(), description="a mapping: the GPU Operator's chart"
    )
    gpu_manager: GpuManagerSettings = Field(
        default=GpuManagerSettings(), description="a mapping: TKEStack's gpu-manager"
    )
    hami: HamiSettings = Field(
        default=HamiSettings(), description="a mapping: HAMi's chart, which shares GPUs"
    )
    dra: DraSettings = Field(
        default=DraSettings(), description="a mapping: the DRA driver's chart and claims"
    )
    driver_installer: DriverInstallerSettings = Field(
        default=DriverInstallerSettings(), description="a mapping: the driver by DaemonSet"
    )
    scheduling: SchedulingSettings = Field(
        default=SchedulingSettings(), description="a mapping: per-node settings, priorities, limits"
    )
    monitoring: MonitoringSettings | None = Field(
        default=None, description="a mapping: metrics, alerts and a dashboard"
    )
    validation: ValidationSettings = Field(
        default=ValidationSettings(), description="a mapping: the validation pods"
    )
    guardrails: GuardrailsSettings | None = Field(
        default=None, description="a mapping with mode: the GPU rules at admission, and quotas"
    )
    charts: ChartsSettings = Field(
        default=ChartsSettings(), description="a mapping: source of the charts"
    )
    registry: RegistrySettings = Field(
        default=RegistrySettings(), description="a mapping: source of the images"
    )
    state_copies: StrictInt = Field(
        default=10,
        ge=0,
        le=1000,
        description="a number from 0 to 1000: copies of the state that its local backend keeps, "
        "one for each run that changes something",
        examples=["30"],
    )

    @property
    def installer(self) -> DriverInstallerSettings | None:
        """Return the settings of the driver's DaemonSet; None if no pool gets its driver so."""
        by_daemonset = any(pool.driver.managed_by_daemonset for pool in gpu_pools(self.pools))
        return self.driver_installer if by_daemonset else None

    def in_maintenance(self, host: Host) -> bool:
        """Return True if `maintenance` in the stack file lists the host or its node."""
        return not self.names_in_maintenance.isdisjoint((host.name, host.node))

    @cached_property
    def names_in_maintenance(self) -> frozenset[str]:
        """Return the names of hosts and of nodes that `maintenance` in the stack file lists."""
        return frozenset(written_out(self.maintenance))

    @cached_property
    def nodes_in_maintenance(self) -> frozenset[str]:
        """Return the names of the nodes in maintenance.

        The program neither changes nor counts these nodes, and they may be missing in the cluster.
        """
        hosts = {host.name for host in self.hosts}
        nodes = {host.node for host in self.hosts if self.in_maintenance(host)}
        return frozenset(nodes.union(self.names_in_maintenance - hosts))
