"""The NVIDIA runtime in the hosts' container engine, as a drop-in beside what is there.

Owns the drop-in and, where it is missing, the line that imports it. Refuses to own the engine's
other settings: they are kept, and the result is judged by the engine's own merged view.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from components.hosts.command import HostsArgs, host_commands
from components.hosts.runtime_script import runtime_script, toolkit_seconds
from components.hosts.settings.host import Host
from components.platforms.base import Delivery
from components.platforms.registry import platform_of
from components.settings.cluster import Cluster


def gpu_hosts(cluster: Cluster) -> tuple[Host, ...]:
    """Hosts with GPUs; the others get no GPU step.

    None where the platform configures the runtime: two writers undo each other. None where it
    mounts devices itself and wants plain runc (tkestack/gpu-manager#78).
    """
    platform = platform_of(cluster)
    if platform.delivery is Delivery.PLUGIN or platform.engines.configured:
        return ()
    return tuple(host for host in cluster.hosts if host.role.has_gpus)


def _engine(cluster: Cluster) -> str:
    return cluster.runtime.engine.value


class ContainerRuntime(pulumi.ComponentResource):
    """One remote command per host with GPUs."""

    TYPE = "gpucluster:index:ContainerRuntime"

    hosts: pulumi.Output[list[str]]
    commands: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        hosts = gpu_hosts(args.cluster)
        self.commands = host_commands(
            self, name, hosts, args, runtime_script, toolkit_seconds, _engine
        )
        self.hosts = pulumi.Output.from_input([host.name for host in hosts])
        self.register_outputs({"hosts": self.hosts})
