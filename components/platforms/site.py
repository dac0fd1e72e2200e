"""Settings of a stack that a platform depends on, in addition to the platform's own section."""

from __future__ import annotations

from dataclasses import dataclass, field

from components.platforms.tolerations import tolerations
from components.settings.adopted import AdoptedSettings
from components.settings.hosts.driver import DriverSettings
from components.settings.hosts.proxy import ProxySettings
from components.settings.hosts.runtime import RuntimeSettings
from components.settings.nodes.pool import Pool, gpu_pools
from components.settings.nodes.taint import Taint, Toleration
from components.settings.registry import RegistrySettings


@dataclass(frozen=True, kw_only=True)
class Site:
    """Settings of the stack file that platforms read.

    Attributes:
        context: Context of the kubeconfig, for messages.
        platform: Name of the platform in the stack file.
        pools: All pools.
        node_taints: Taints of single nodes, in addition to the taints of the node's pool.
        more_tolerations: Tolerations of the stack file for taints that this program doesn't set.
        has_hosts: True if the stack prepares hosts.
        plugin_memory: Memory of the device plugin if a driver installer is used, else None.
        runtime: Section `runtime` of the stack file.
        driver: Section `driver` of the stack file.
        registry: Section `registry` of the stack file.
        proxy: Section `proxy` of the stack file.
        adopted: Section `adopted` of the stack file, or None.
    """

    context: str
    platform: str
    pools: tuple[Pool, ...]
    node_taints: tuple[Taint, ...] = ()
    more_tolerations: tuple[Toleration, ...] = ()
    has_hosts: bool = False
    plugin_memory: str | None = None
    runtime: RuntimeSettings = field(default=RuntimeSettings())
    driver: DriverSettings = field(default=DriverSettings())
    registry: RegistrySettings = field(default=RegistrySettings())
    proxy: ProxySettings = field(default=ProxySettings())
    adopted: AdoptedSettings | None = None

    @property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """Return the pools whose nodes have GPUs."""
        return gpu_pools(self.pools)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """Return the tolerations of a pod that must run on every node with GPUs."""
        return self.tolerations_on(self.gpu_pools)

    def tolerations_on(self, pools: tuple[Pool, ...]) -> list[dict[str, str]]:
        """Return the tolerations of a pod that must run on every node of the given pools."""
        return tolerations(pools, self.node_taints, self.more_tolerations)
