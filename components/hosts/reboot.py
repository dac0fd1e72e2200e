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

from components.desired.host import DesiredHost, working
from components.desired.rollout import DesiredRollout
from components.hosts.prepare_script import prepare_script
from components.operation import command_line, repair


@dataclass(frozen=True, kw_only=True)
class HostRebootArgs:
    """What `HostReboot` needs.

    Attributes:
        hosts: the hosts that may be rebooted.
        rollout: how nodes are taken out of use.
        private_key: an SSH private key, a secret.
        drift: why hosts must be rebooted, by host, as the inspection found it.
    """

    hosts: tuple[DesiredHost, ...]
    rollout: DesiredRollout
    private_key: pulumi.Input[str]
    drift: Mapping[str, str] = field(default_factory=dict)


def reboot_document(args: HostRebootArgs, private_key: str) -> dict[str, Any]:
    """Return the input of ``components.hosts.restart``.

    ``prepared`` is the digest of what hosts are prepared with: after a change of it hosts may ask.
    """
    hosts, rollout = working(args.hosts), args.rollout
    scripts = "\0".join(prepare_script(host) for host in hosts)
    return {
        "context": rollout.context,
        "makesCluster": rollout.makes_cluster,
        "hosts": [host.target for host in hosts],
        "maxUnavailable": rollout.max_unavailable,
        "timeoutSeconds": rollout.boot_timeout_seconds,
        "drainTimeoutSeconds": rollout.drain_timeout_seconds,
        "consent": list(rollout.consent),
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
        self.done = pulumi.Output.from_input("")
        if args.rollout.boots and args.hosts:
            line = command_line("reboot", "apply")
            finding = "; ".join(f"host {host}: {why}" for host, why in sorted(args.drift.items()))
            environment, ignored = repair(finding or None)
            key = pulumi.Output.secret(args.private_key)
            self.done = command.local.Command(
                name,
                create=line,
                update=line,
                environment=environment,
                stdin=pulumi.Output.json_dumps(key.apply(lambda text: reboot_document(args, text))),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=ignored),
            ).stdout
        self.register_outputs({})
