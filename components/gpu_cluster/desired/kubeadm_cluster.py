"""Desired state of a cluster that the stack creates with kubeadm."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.settings.charts import ChartsSettings
from gpu_cluster.settings.hosts.kubeadm_init import Init


@dataclass(frozen=True, kw_only=True)
class DesiredKubeadmCluster:
    """The cluster that `kubernetesPackages.init` declares.

    Attributes:
        first: Control-plane host on which `kubeadm init` runs.
        joining: The other hosts, which join the cluster: control planes and workers.
        init: Section `kubernetesPackages.init` of the stack file.
        context: Name of the context in the generated kubeconfig.
        identifier: Identifier that distinguishes this cluster from another cluster with the same
            context.
        charts: Section `charts`: the source of the network add-on's chart.
    """

    first: DesiredHost
    joining: tuple[DesiredHost, ...]
    init: Init
    context: str
    identifier: str
    charts: ChartsSettings

    @property
    def members(self) -> tuple[DesiredHost, ...]:
        """Return the joining hosts that become control planes."""
        return tuple(host for host in self.joining if host.role.is_control_plane)

    @property
    def workers(self) -> tuple[DesiredHost, ...]:
        """Return the joining hosts that become workers."""
        return tuple(host for host in self.joining if not host.role.is_control_plane)
