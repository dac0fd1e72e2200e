"""Component that reboots hosts whose preparation needs a reboot, before the runtime is configured.

One Command on the engineer's machine covers the whole stack, because an SSH connection does
not survive the host's reboot, and because a host may only go down if enough other hosts are up. The
Command exists only with `reboot.when: required`, so nothing is rebooted without consent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from gpu_cluster.desired.host import DesiredHost, working
from gpu_cluster.desired.rollout import DesiredRollout, RebootRequest
from gpu_cluster.findings import Findings
from gpu_cluster.hosts.phases import prepare_script
from gpu_cluster.operation import run_program
from gpu_cluster.requests import write


@dataclass(frozen=True, kw_only=True)
class RebootArgs:
    """Arguments of the component `Reboot`.

    Attributes:
        hosts: Hosts that may be rebooted.
        rollout: Settings for taking nodes out of use.
        findings: Reasons why hosts must be rebooted, by host.
    """

    hosts: tuple[DesiredHost, ...]
    rollout: DesiredRollout
    private_key: pulumi.Input[str]
    findings: Mapping[str, Findings] = field(default_factory=dict)


def reboot_request(args: RebootArgs, private_key: str) -> RebootRequest:
    """Return the request of the program `reboot`."""
    hosts = working(args.hosts)
    scripts = "\0".join(prepare_script(host) for host in hosts)
    return RebootRequest(
        rollout=args.rollout,
        hosts=tuple(host.target for host in hosts),
        prepared=hashlib.sha256(scripts.encode()).hexdigest(),
        private_key=private_key,
    )


class Reboot(pulumi.ComponentResource):
    """The reboots of all hosts: one Command; no Command if hosts may not be rebooted.

    The output `done` is the Command's standard output; it is empty without a Command.
    """

    TYPE = "gpucluster:index:Reboot"

    done: pulumi.Output[str]

    def __init__(
        self, name: str, args: RebootArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        """Declare the Command if hosts may be rebooted."""
        super().__init__(self.TYPE, name, None, opts)
        self.done = pulumi.Output.from_input("")
        if args.rollout.boots and args.hosts:
            reboot_findings = [
                finding
                for _, host_findings in sorted(args.findings.items())
                for finding in host_findings
            ]
            key = pulumi.Output.secret(args.private_key)
            self.done = run_program(
                name,
                "reboot",
                "apply",
                key.apply(lambda text: write(reboot_request(args, text))),
                pulumi.ResourceOptions(parent=self),
                findings=reboot_findings,
            ).stdout
        self.register_outputs({})
