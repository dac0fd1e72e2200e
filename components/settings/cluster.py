"""The whole declaration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from components.base.model import Model
from components.settings.charts import Charts
from components.settings.device_plugin import DevicePlugin
from components.settings.dra import Dra
from components.settings.driver_installer import DriverInstaller
from components.settings.gpu_manager import GpuManager
from components.settings.gpu_operator import GpuOperator
from components.settings.guardrails import Guardrails
from components.settings.hosts.host import Host
from components.settings.hosts.sections import HostSections
from components.settings.hosts.ssh import Ssh
from components.settings.kubernetes import Kubernetes
from components.settings.monitoring import Monitoring
from components.settings.nodes.node_range import NodeNames, written_out
from components.settings.nodes.pool import Pool
from components.settings.nodes.scheduling import Scheduling
from components.settings.parts import SECTIONS, Parts
from components.settings.platform import NAMES, PlatformName
from components.settings.registry import Registry
from components.settings.rollout import Rollout
from components.settings.validation import Validation


class Members(Model):
    """What a cluster consists of, and how its hosts are reached."""

    version: Literal["v1"] = Field(description="v1, the version of this format", examples=["v1"])
    kubernetes: Kubernetes = Field(
        description="a mapping with context", examples=["{context: gpu-cluster-dev}"]
    )
    pools: tuple[Pool, ...] = Field(
        min_length=1,
        description="a list of at least one pool",
        examples=['[{name: a100, nodes: ["gpu-[1-4]"], gpusPerNode: 8}]'],
    )
    hosts: tuple[Host, ...] = Field(default=(), description="a list of hosts")
    maintenance: NodeNames = Field(
        default=(),
        description="a list of nodes or hosts, or ranges, that are out for repair",
        examples=["[gpu-9]"],
    )
    ssh: Ssh = Field(default=Ssh(), description="a mapping: how hosts are reached")


class Cluster(HostSections, Members):
    """A GPU cluster as declared. Sections left out have their defaults."""

    rollout: Rollout = Field(
        default=Rollout(), description="a mapping with maxUnavailable: how nodes are taken out"
    )
    platform: PlatformName = Field(
        description=f"one of {', '.join(NAMES)}", examples=["device-plugin"]
    )
    device_plugin: DevicePlugin = Field(
        default=DevicePlugin(), description="a mapping: the device plugin's chart"
    )
    gpu_operator: GpuOperator = Field(
        default=GpuOperator(), description="a mapping: the GPU Operator's chart"
    )
    gpu_manager: GpuManager = Field(
        default=GpuManager(), description="a mapping: TKEStack's gpu-manager"
    )
    dra: Dra = Field(default=Dra(), description="a mapping: the DRA driver's chart and claims")
    driver_installer: DriverInstaller = Field(
        default=DriverInstaller(), description="a mapping: the driver by DaemonSet"
    )
    scheduling: Scheduling = Field(
        default=Scheduling(), description="a mapping: per-node settings, priorities, limits"
    )
    monitoring: Monitoring | None = Field(
        default=None, description="a mapping: metrics, alerts and a dashboard"
    )
    validation: Validation = Field(
        default=Validation(), description="a mapping: the validation pods"
    )
    guardrails: Guardrails | None = Field(
        default=None, description="a mapping with mode: the GPU rules at admission, and quotas"
    )
    charts: Charts = Field(default=Charts(), description="a mapping: where charts come from")
    registry: Registry = Field(default=Registry(), description="a mapping: where images come from")

    def parts(self) -> Parts:
        """Return what the rules between parts read."""
        fields = type(self).model_fields
        return Parts(
            pools=dict(enumerate(self.pools)),
            hosts=dict(enumerate(self.hosts)),
            maintenance=self.maintenance,
            platform=self.platform,
            driver=self.driver,
            runtime=self.runtime,
            device_plugin=self.device_plugin,
            gpu_operator=self.gpu_operator,
            given=frozenset(fields[name].alias or name for name in self.model_fields_set),
            sections={
                name: section
                for name in SECTIONS
                if isinstance(section := getattr(self, name), Model)
            },
        )

    @property
    def installer(self) -> DriverInstaller | None:
        """The driver's installers; None where the driver comes otherwise."""
        return self.driver_installer if self.driver.managed_by_daemonset else None

    def in_maintenance(self, host: Host) -> bool:
        """Whether a host is out for repair, by its own name or its node's."""
        return not {host.name, host.node}.isdisjoint(written_out(self.maintenance))

    @property
    def nodes_in_maintenance(self) -> frozenset[str]:
        """Nodes that are neither touched nor counted; they may be missing in the cluster."""
        hosts = {host.name for host in self.hosts}
        nodes = {host.node for host in self.hosts if self.in_maintenance(host)}
        return frozenset(nodes.union(set(written_out(self.maintenance)) - hosts))
