"""What a platform depends on beside its own section of the stack file."""

from __future__ import annotations

from dataclasses import dataclass, field

from components.platforms.tolerations import tolerations
from components.settings.hosts.driver import DriverSettings
from components.settings.hosts.proxy import ProxySettings
from components.settings.hosts.runtime import RuntimeSettings
from components.settings.nodes.pool import Pool, gpu_pools
from components.settings.nodes.taint import Taint
from components.settings.registry import RegistrySettings


@dataclass(frozen=True, kw_only=True)
class Site:
    """The cluster that a platform serves, as far as any platform asks about it.

    Attributes:
        context: the kubeconfig context, for messages.
        platform: name of the platform that the stack declares.
        pools: all pools.
        node_taints: taints that single nodes have beside their pool's.
        has_hosts: whether the stack prepares hosts.
        plugin_memory: memory of the device plugin beside a driver installer; None: no installer.
    """

    context: str
    platform: str
    pools: tuple[Pool, ...]
    node_taints: tuple[Taint, ...] = ()
    has_hosts: bool = False
    plugin_memory: str | None = None
    runtime: RuntimeSettings = field(default=RuntimeSettings())
    driver: DriverSettings = field(default=DriverSettings())
    registry: RegistrySettings = field(default=RegistrySettings())
    proxy: ProxySettings = field(default=ProxySettings())

    @property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """Pools whose nodes have GPUs."""
        return gpu_pools(self.pools)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """What a pod tolerates that runs on every node with GPUs."""
        return tolerations(self.gpu_pools, self.node_taints)
