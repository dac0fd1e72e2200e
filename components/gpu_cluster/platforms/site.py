"""Settings of a stack that a platform depends on, in addition to the platform's own section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpu_cluster.platforms.tolerations import tolerations
from gpu_cluster.settings.adopted import AdoptedSettings
from gpu_cluster.settings.hosts.proxy import ProxySettings
from gpu_cluster.settings.hosts.sections import NodeSections
from gpu_cluster.settings.nodes.pool import Pool, gpu_pools
from gpu_cluster.settings.nodes.scheduling import NodeSchedulingSettings
from gpu_cluster.settings.nodes.taint import Toleration
from gpu_cluster.settings.registry import RegistrySettings


@dataclass(frozen=True, kw_only=True)
class Site:
    """Settings of the stack file that platforms read.

    Attributes:
        context: Context of the kubeconfig, for messages.
        platform: Name of the platform in the stack file.
        pools: All pools.
        nodes: Labels and taints of single nodes, which override those of the node's pool.
        more_tolerations: Tolerations of the stack file for taints that this program doesn't set.
        has_hosts: True if the stack prepares hosts.
        plugin_memory: Memory of the device plugin if a driver installer is used, else None.
        registry: Section `registry` of the stack file.
        proxy: Section `proxy` of the stack file.
        adopted: Section `adopted` of the stack file, or None.
    """

    context: str
    platform: str
    pools: tuple[Pool, ...]
    nodes: Mapping[str, NodeSchedulingSettings] = field(default_factory=dict)
    more_tolerations: tuple[Toleration, ...] = ()
    has_hosts: bool = False
    plugin_memory: str | None = None
    registry: RegistrySettings = field(default=RegistrySettings())
    proxy: ProxySettings = field(default=ProxySettings())
    adopted: AdoptedSettings | None = None

    @property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """Return the pools whose nodes have GPUs."""
        return gpu_pools(self.pools)

    def parts(self, pool: Pool) -> tuple[Pool, ...]:
        """Return a pool, split into pools whose nodes have equal labels, taints and GPUs."""
        return pool.parts(self.nodes)

    def labels_of(self, pool: Pool, node: str) -> Mapping[str, str]:
        """Return the declared labels of a node of a pool."""
        return self.nodes[node].labels_over(pool.labels) if node in self.nodes else pool.labels

    @property
    def shared(self) -> NodeSections:
        """Return the sections of all nodes with GPUs, for settings in `Platform.shared`.

        Loading refuses a stack in which these settings differ between nodes with GPUs.
        """
        return (*self.gpu_pools, *self.pools)[0]

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """Return the tolerations of a pod that must run on every node with GPUs."""
        return self.tolerations_on(self.gpu_pools)

    def tolerations_on(self, pools: tuple[Pool, ...]) -> list[dict[str, str]]:
        """Return the tolerations of a pod that must run on every node of the given pools."""
        names = (name for pool in pools for name in pool.node_names if name in self.nodes)
        more = tuple(taint for name in names for taint in self.nodes[name].taints)
        return tolerations(pools, more, self.more_tolerations)
