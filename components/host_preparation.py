"""Hosts made ready for Kubernetes and GPUs: swap, kernel modules, sysctl, nouveau.

Owns the files that it writes on hosts and gives them back byte for byte. Refuses to own the
operating system: no upgrade, no reboot, no package is removed.
"""

from __future__ import annotations

import pulumi

from .host_command import HostsArgs, host_commands
from .scripts import prepare_script


class HostPreparation(pulumi.ComponentResource):
    """One remote command per host."""

    TYPE = "gpucluster:index:HostPreparation"

    hosts: pulumi.Output[list[str]]

    def __init__(
        self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        host_commands(self, name, args.cluster.hosts, args, prepare_script)
        self.hosts = pulumi.Output.from_input([host.name for host in args.cluster.hosts])
        self.register_outputs({"hosts": self.hosts})
