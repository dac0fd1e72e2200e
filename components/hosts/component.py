"""Hosts made ready for Kubernetes and GPUs: their preparation, and the NVIDIA runtime.

`HostPreparation` owns the files that it writes on hosts and gives them back byte for byte. It
refuses to own the operating system: no upgrade, no reboot; a package is removed only where that is
declared. `ContainerRuntime` owns its drop-in of the container engine and, where it is missing, the
line that imports it. It refuses to own the engine's other settings: they are kept, and the result
is judged by the engine's own merged view.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from components.desired.host import DesiredHost
from components.hosts.command import HostsArgs, host_commands
from components.hosts.phases import (
    preparation_seconds,
    prepare_script,
    runtime_script,
    runtime_seconds,
)


class HostPreparation(pulumi.ComponentResource):
    """One remote command per host."""

    TYPE = "gpucluster:index:HostPreparation"

    hosts: pulumi.Output[list[str]]
    commands: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)

        def script(host: DesiredHost) -> pulumi.Input[str]:
            text = prepare_script(host, args.join_token)
            args.copies.want(host, text.bundles)
            # The state and the preview show neither the token nor the text around it.
            return pulumi.Output.secret(str(text)) if host.joins else text

        self.commands = host_commands(self, name, args.hosts, args, script, preparation_seconds)
        self.hosts = pulumi.Output.from_input([host.name for host in args.hosts])
        self.register_outputs({"hosts": self.hosts})


def _engine(host: DesiredHost) -> str:
    return host.sections.runtime.engine.value


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
            self, name, hosts, args, runtime_script, runtime_seconds, _engine
        )
        self.hosts = pulumi.Output.from_input([host.name for host in hosts])
        self.register_outputs({"hosts": self.hosts})
