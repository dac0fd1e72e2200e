"""The NVIDIA runtime in the hosts' container engine, as a drop-in beside what is there.

Owns the drop-in and, where it is missing, the line that imports it. Refuses to own the engine's
other settings: they are kept, and the result is judged by the engine's own merged view.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from components.desired.host import DesiredHost
from components.hosts.command import HostsArgs, host_commands
from components.hosts.runtime_script import runtime_script, toolkit_seconds


def _engine(host: DesiredHost) -> str:
    return host.runtime.engine.value


class ContainerRuntime(pulumi.ComponentResource):
    """One remote command per host with GPUs."""

    TYPE = "gpucluster:index:ContainerRuntime"

    hosts: pulumi.Output[list[str]]
    commands: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        hosts = tuple(host for host in args.hosts if host.configures_runtime)
        self.commands = host_commands(
            self, name, hosts, args, runtime_script, toolkit_seconds, _engine
        )
        self.hosts = pulumi.Output.from_input([host.name for host in hosts])
        self.register_outputs({"hosts": self.hosts})
