"""Reboots of hosts whose preparation needs one, in waves, between preparation and runtime.

One command for the whole stack, from the engineer's machine: a connection to a host does not
outlive its reboot, and who may be down depends on the others. Refuses to own a reboot that nobody
asked for: it is there only with ``reboot.when: required``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.hosts.prepare_script import prepare_script
from components.hosts.settings.reboot import RebootWhen
from components.operation import command_line, repair
from components.settings.cluster import Cluster


@dataclass(frozen=True, kw_only=True)
class HostRebootArgs:
    """What `HostReboot` needs.

    Attributes:
        cluster: the configuration.
        private_key: an SSH private key, a secret.
        drift: why hosts must be rebooted, by host, as the inspection found it.
    """

    cluster: Cluster
    private_key: pulumi.Input[str]
    drift: Mapping[str, str] = field(default_factory=dict)


def reboot_document(cluster: Cluster, private_key: str) -> dict[str, Any]:
    """The input of ``components.hosts.restart``.

    ``prepared`` is the digest of what hosts are prepared with: after a change of it hosts may ask.
    """
    reboot = cluster.reboot
    scripts = "\0".join(prepare_script(cluster.of(host), host) for host in cluster.working_hosts)
    return {
        "context": cluster.kubernetes.context,
        "makesCluster": cluster.first_host is not None,
        "hosts": [host.record() for host in cluster.working_hosts],
        "maxUnavailable": cluster.rollout.max_unavailable,
        "timeoutSeconds": reboot.timeout_seconds,
        "drainTimeoutSeconds": cluster.rollout.drain_timeout_seconds,
        "consent": sorted(cluster.rollout.evict),
        "prepared": hashlib.sha256(scripts.encode()).hexdigest(),
        "privateKey": private_key,
    }


class HostReboot(pulumi.ComponentResource):
    """One command, or none. ``done``: what it printed; empty without it."""

    TYPE = "gpucluster:index:HostReboot"

    done: pulumi.Output[str]

    def __init__(
        self, name: str, args: HostRebootArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        cluster = args.cluster
        self.done = pulumi.Output.from_input("")
        if cluster.reboot.when is RebootWhen.REQUIRED and cluster.hosts:
            line = command_line("reboot", "apply")
            finding = "; ".join(f"host {host}: {why}" for host, why in sorted(args.drift.items()))
            environment, ignored = repair(finding or None)
            key = pulumi.Output.secret(args.private_key)
            self.done = command.local.Command(
                name,
                create=line,
                update=line,
                environment=environment,
                stdin=pulumi.Output.json_dumps(
                    key.apply(lambda text: reboot_document(cluster, text))
                ),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=ignored),
            ).stdout
        self.register_outputs({})
