"""What a platform depends on beside its own section of the stack file."""

from __future__ import annotations

from dataclasses import dataclass, field

from components.platforms.tolerations import tolerations
from components.settings.hosts.driver import Driver
from components.settings.hosts.proxy import Proxy
from components.settings.hosts.runtime import Runtime
from components.settings.nodes.pool import Pool, gpu_pools
from components.settings.nodes.taint import Taint
from components.settings.registry import Registry


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
    runtime: Runtime = field(default=Runtime())
    driver: Driver = field(default=Driver())
    registry: Registry = field(default=Registry())
    proxy: Proxy = field(default=Proxy())

    @property
    def gpu_pools(self) -> tuple[Pool, ...]:
        """Pools whose nodes have GPUs."""
        return gpu_pools(self.pools)

    @property
    def tolerations(self) -> list[dict[str, str]]:
        """What a pod tolerates that runs on every node with GPUs."""
        return tolerations(self.gpu_pools, self.node_taints)
