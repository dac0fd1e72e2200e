"""The NVIDIA runtime in the hosts' container engine, as a drop-in beside what is there.

Owns the drop-in and, where it is missing, the line that imports it. Refuses to own the engine's
other settings: they are kept, and the result is judged by the engine's own merged view.
"""

from __future__ import annotations

import pulumi

import config

from .host_command import HostsArgs, host_commands
from .scripts import runtime_script


def gpu_hosts(cluster: config.Cluster) -> tuple[config.Host, ...]:
    """Hosts with GPUs; the others get no GPU step.

    None where the GPU Operator configures the runtime: two writers undo each other. None under
    gpu-manager, which wants plain runc (tkestack/gpu-manager#78).
    """
    if cluster.platform is config.Platform.GPU_MANAGER:
        return ()
    if cluster.gpu_operator and cluster.gpu_operator.toolkit:
        return ()
    return tuple(host for host in cluster.hosts if host.role is config.Role.GPU_WORKER)


def _engine(cluster: config.Cluster) -> str:
    return cluster.runtime.engine.value


class ContainerRuntime(pulumi.ComponentResource):
    """One remote command per host with GPUs."""

    TYPE = "gpucluster:index:ContainerRuntime"

    hosts: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        hosts = gpu_hosts(args.cluster)
        host_commands(self, name, hosts, args, runtime_script, _engine)
        self.hosts = pulumi.Output.from_input([host.name for host in hosts])
        self.register_outputs({"hosts": self.hosts})
