"""Hosts made ready for Kubernetes and GPUs: system, kernel, driver, CUDA, Kubernetes' packages.

Owns the files that it writes on hosts and gives them back byte for byte. Refuses to own the
operating system: no upgrade, no reboot; a package is removed only where that is declared.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi

from components.desired.host import DesiredHost
from components.hosts.command import HostsArgs, host_commands
from components.hosts.prepare_script import prepare_script
from components.hosts.software import installing


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

        self.commands = host_commands(self, name, args.hosts, args, script, installing)
        self.hosts = pulumi.Output.from_input([host.name for host in args.hosts])
        self.register_outputs({"hosts": self.hosts})
