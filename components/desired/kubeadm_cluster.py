"""A cluster that the stack makes by kubeadm."""

from __future__ import annotations

from dataclasses import dataclass

from components.desired.host import DesiredHost
from components.settings.charts import ChartsSettings
from components.settings.hosts.kubeadm_init import Init


@dataclass(frozen=True, kw_only=True)
class DesiredKubeadmCluster:
    """The cluster that `kubernetesPackages.init` declares.

    Attributes:
        first: the control-plane host on which `kubeadm init` runs.
        joining: the other hosts, which join it.
        init: the section `kubernetesPackages.init`.
        context: context that the kubeconfig gets.
        identifier: what tells this cluster from another one of the same context.
        charts: where the network add-on's chart comes from.
    """

    first: DesiredHost
    joining: tuple[DesiredHost, ...]
    init: Init
    context: str
    identifier: str
    charts: ChartsSettings
