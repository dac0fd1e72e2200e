"""Reboots of hosts whose preparation needs one, in waves, between preparation and runtime.

One command for the whole stack, from the engineer's machine: a connection to a host does not
outlive its reboot, and who may be down depends on the others. Refuses to own a reboot that nobody
asked for: it is there only with ``reboot.when: required``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_command as command

from components.desired.host import DesiredHost, working
from components.desired.rollout import DesiredRollout, RebootRequest
from components.findings import Findings
from components.hosts.phases import prepare_script
from components.operation import command_line, repair
from components.requests import write


@dataclass(frozen=True, kw_only=True)
class RebootArgs:
    """What `Reboot` needs.

    Attributes:
        hosts: the hosts that may be rebooted.
        rollout: how nodes are taken out of use.
        private_key: an SSH private key, a secret.
        findings: why hosts must be rebooted, by host.
    """

    hosts: tuple[DesiredHost, ...]
    rollout: DesiredRollout
    private_key: pulumi.Input[str]
    findings: Mapping[str, Findings] = field(default_factory=dict)


def reboot_request(args: RebootArgs, private_key: str) -> RebootRequest:
    """Return the request of the program ``reboot``."""
    hosts = working(args.hosts)
    scripts = "\0".join(prepare_script(host) for host in hosts)
    return RebootRequest(
        rollout=args.rollout,
        hosts=tuple(host.target for host in hosts),
        prepared=hashlib.sha256(scripts.encode()).hexdigest(),
        private_key=private_key,
    )


class Reboot(pulumi.ComponentResource):
    """One command, or none. ``done``: what it printed; empty without it."""

    TYPE = "gpucluster:index:Reboot"

    done: pulumi.Output[str]

    def __init__(
        self, name: str, args: RebootArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(self.TYPE, name, None, opts)
        self.done = pulumi.Output.from_input("")
        if args.rollout.boots and args.hosts:
            line = command_line("reboot", "apply")
            found = [finding for _, each in sorted(args.findings.items()) for finding in each]
            environment, ignored = repair(found)
            key = pulumi.Output.secret(args.private_key)
            self.done = command.local.Command(
                name,
                create=line,
                update=line,
                environment=environment,
                stdin=key.apply(lambda text: write(reboot_request(args, text))),
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=ignored),
            ).stdout
        self.register_outputs({})
