"""Components that prepare hosts for Kubernetes and configure the NVIDIA container runtime.

`HostPreparation` owns the files that it writes on hosts and restores the previous files byte for
byte. It never upgrades the operating system and never reboots; it removes a package only if that is
declared.
`ContainerRuntime` owns its drop-in file of the container engine and, if the import is missing, the
line that imports the drop-in. It keeps all other settings of the engine. Whether the result is
right is decided from the engine's own merged configuration.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.hosts.command import HostsArgs, host_commands
from gpu_cluster.hosts.phases import (
    preparation_seconds,
    prepare_script,
    runtime_script,
    runtime_seconds,
)


class HostPreparation(pulumi.ComponentResource):
    """The preparation of all hosts: one remote Command per host."""

    TYPE = "gpucluster:index:HostPreparation"

    hosts: pulumi.Output[list[str]]
    commands: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Commands that prepare the hosts."""
        super().__init__(self.TYPE, name, None, opts)

        def script(host: DesiredHost) -> pulumi.Input[str]:
            text = prepare_script(host, args.join_token)
            args.copies.want(host, text.bundles)
            # The Pulumi state and the preview must not show this script: it contains the token.
            return pulumi.Output.secret(str(text)) if host.joins else text

        self.commands = host_commands(self, name, args.hosts, args, script, preparation_seconds)
        self.hosts = pulumi.Output.from_input([host.name for host in args.hosts])
        self.register_outputs({"hosts": self.hosts})


def _engine_name(host: DesiredHost) -> str:
    return host.sections.runtime.engine.value


class ContainerRuntime(pulumi.ComponentResource):
    """The NVIDIA container runtime on all hosts with GPUs: one remote Command per host."""

    TYPE = "gpucluster:index:ContainerRuntime"

    hosts: pulumi.Output[list[str]]
    commands: Mapping[str, pulumi.Resource]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Commands that configure the container runtime."""
        super().__init__(self.TYPE, name, None, opts)
        hosts = tuple(host for host in args.hosts if host.configures_runtime)
        self.commands = host_commands(
            self, name, hosts, args, runtime_script, runtime_seconds, _engine_name
        )
        self.hosts = pulumi.Output.from_input([host.name for host in hosts])
        self.register_outputs({"hosts": self.hosts})
