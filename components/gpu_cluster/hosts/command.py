"""One remote Command per host and phase, which applies or undoes a script on the host.

The script is passed on standard input. For a host in maintenance, nothing connects to the host and
its resources in the state stay unchanged. A resource that is no longer declared is deleted, and
deleting a Command undoes its changes on the host. So the resources of a host in maintenance are
still declared, with all of their inputs ignored. A host in maintenance that was never prepared has
no resource in the state, so none is declared: creating one would need a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from gpu_cluster.desired.host import DesiredHost
from gpu_cluster.findings import Findings
from gpu_cluster.hosts.copies import Copies
from gpu_cluster.hosts.prepared import COMMAND
from gpu_cluster.hosts.recorded import recorded_names
from gpu_cluster.hosts.script import Declaration
from gpu_cluster.operation import repair_line
from gpu_cluster.ssh.answers import Channel, P, T, Unreadable
from gpu_cluster.workarounds import untraced
from gpu_rules.faults import FaultError

INPUTS = [
    "connection", "create", "update", "delete", "stdin", "triggers", "logging",
    "addPreviousOutputInEnv",
]  # fmt: skip
"""All inputs that this module sets on a Command, for options such as `ignoreChanges`."""


@dataclass(frozen=True, kw_only=True)
class HostsArgs:
    """Arguments of the components that run commands on hosts.

    Attributes:
        hosts: All hosts of the stack.
        copies: Copies the script files of the steps to hosts.
        findings: Findings of the inspection, by host name.
        join_token: kubeadm's bootstrap token, a secret. Required if hosts join a cluster.
        after: Command that must run before a host's Command, by host name. The dependency is per
            host, so that one unreachable host does not block the undo on other hosts: the engine
            deletes nothing that another resource depends on.
        left: Names of hosts on which somebody else is at work; their resources do not change in
            this run.
        gate: Output to wait for before the first command, without becoming a dependency in the
            state.
    """

    hosts: tuple[DesiredHost, ...]
    private_key: pulumi.Input[str]
    copies: Copies
    findings: Mapping[str, Findings] = field(default_factory=dict)
    join_token: str | None = field(default=None, repr=False)
    after: Mapping[str, pulumi.Resource] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    gate: pulumi.Output[str] | None = None


def host_commands(
    parent: pulumi.ComponentResource,
    name: str,
    hosts: tuple[DesiredHost, ...],
    args: HostsArgs,
    script: Callable[[DesiredHost], pulumi.Input[str]],
    installing: Callable[[DesiredHost], int],
    kind: Callable[[DesiredHost], str] | None = None,
    more: pulumi.ResourceOptions | None = None,
    always_kept: Sequence[str] = (),
) -> dict[str, command.remote.Command]:
    """Declare the Commands of one phase and return them by host name.

    A Command applies its script on create and on every change of the script, and undoes it on
    delete. Its output never reaches the engine's log, which a long line could stop (pulumi-command
    1.2.1, LogOutput). Commands of hosts in maintenance stay unchanged. A script that is an output,
    not a `Declaration`, must have registered its files with `HostsArgs.copies` before.

    Args:
        parent: Component that owns the Commands.
        name: Prefix of the Commands' names; the host's name is added.
        hosts: Hosts of this phase.
        script: Returns the script of a host.
        installing: Returns the seconds that installers may take on a host, in addition to the
            stack's limit.
        kind: Returns a value per host; if it changes, the old script is undone before the new one
            is applied. None: no such value.
        more: Resource options added to each Command.
        always_kept: Inputs whose changes are ignored as long as a host has no findings.
    """
    commands = {}
    for host in managed_hosts(hosts, name):
        longer = installing(host)
        line = command_line(host, "apply", longer)
        update, ignored = repair_line(line, args.findings.get(host.name, ()), always_kept)
        if host.name in args.left:
            ignored = INPUTS
        text = script(host)
        if isinstance(text, Declaration):
            args.copies.want(host, text.bundles)
        with untraced():
            commands[host.name] = command.remote.Command(
                f"{name}-{host.name}",
                connection=connection(host, args.private_key),
                create=line,
                update=update,
                delete=command_line(host, "undo", longer),
                stdin=_wait_for_gate(text, args.gate),
                triggers=[kind(host)] if kind else None,
                logging=command.remote.Logging.NONE,
                add_previous_output_in_env=False,
                opts=pulumi.ResourceOptions.merge(
                    pulumi.ResourceOptions(
                        parent=parent,
                        depends_on=args.after.get(host.name),
                        delete_before_replace=True,
                        custom_timeouts=time_limit(host, longer),
                        hooks=args.copies.before(f"{name}-{host.name}", [host.name]),
                        **options(host, ignored),
                    ),
                    more,
                ),
            )
    return commands


def connection(host: DesiredHost, private_key: pulumi.Input[str]) -> command.remote.ConnectionArgs:
    """Return the connection arguments of a host, with its host key checked and its bastion, if any.

    Args:
        host: The host. The configuration requires its `host_key` and its bastion's.
    """
    ssh, proxy = host.ssh, None
    if host.bastion is not None:
        proxy = command.remote.ProxyConnectionArgs(
            host=host.bastion.address,
            port=host.bastion.port,
            user=host.bastion.user,
            host_key=host.bastion.host_key,
            private_key=private_key,
            dial_error_limit=ssh.dial_error_limit,
            per_dial_timeout=ssh.per_dial_timeout_seconds,
        )
    return command.remote.ConnectionArgs(
        host=host.address,
        port=host.port,
        user=host.user,
        host_key=host.host_key,
        private_key=private_key,
        dial_error_limit=ssh.dial_error_limit,
        per_dial_timeout=ssh.per_dial_timeout_seconds,
        proxy=proxy,
    )


def command_line(host: DesiredHost, action: str, installing: int = 0) -> str:
    """Return the shell line that runs a script from standard input and ends it after a time limit.

    `remote.Command` itself has no time limit (pulumi-command 1.2.1,
    provider/pkg/provider/remote/command.go). The script is killed 10 s after the limit.

    Args:
        action: `apply`, `fetch`, `upgrade` or `undo`.
        installing: Additional seconds for installers. Each installer has its own limit, because
            killing a package manager leaves packages half installed.
    """
    line = f"timeout -k 10 {host.ssh.command_timeout_seconds + installing} sh -s -- {action}"
    return line if host.user == "root" else f"sudo -n {line}"


def time_limit(host: DesiredHost, installing: int = 0) -> pulumi.CustomTimeouts:
    """Return the engine's timeouts for a command.

    A host that responds too slowly never fails on its own. The timeout is the longest time that
    dialling (pulumi-command waits at most 5 s between two attempts) and the command's own limit can
    take together.
    """
    ssh = host.ssh
    attempt = ssh.per_dial_timeout_seconds + 5
    dials = ssh.dial_error_limit * attempt * (2 if host.bastion else 1)
    text = f"{dials + ssh.command_timeout_seconds + installing + 60}s"
    return pulumi.CustomTimeouts(create=text, update=text, delete=text)


def managed_hosts(hosts: tuple[DesiredHost, ...], name: str) -> tuple[DesiredHost, ...]:
    """Return the hosts for which a command is declared.

    A host in maintenance is included only if the state already has its command.

    Args:
        hosts: Hosts of the phase.
        name: Prefix of the commands' names; the host's name is added.
    """
    if not any(host.in_maintenance for host in hosts):
        return hosts
    recorded = recorded_names()
    return tuple(
        host
        for host in hosts
        if not host.in_maintenance or f"{COMMAND}::{name}-{host.name}" in recorded
    )


def options(host: DesiredHost, ignored: list[str]) -> dict[str, Any]:
    """Return the resource options of a host's Command.

    Args:
        ignored: Inputs whose changes are ignored also on a host that is not in maintenance.
    """
    if not host.in_maintenance:
        return {"ignore_changes": ignored}
    # Deleting the Command of a host in maintenance undoes nothing on the host.
    return {"ignore_changes": INPUTS, "retain_on_delete": True}


def answer(
    ran: command.remote.Command,
    host: str,
    channel: Channel[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> pulumi.Output[T]:
    """Return a value that is parsed from the output of a command on a host, as an output.

    Args:
        ran: The Command resource.
        host: Name of the host, for errors.
        channel: Parser of the output.
        *args: Arguments of the parser.
        **kwargs: Keyword arguments of the parser.

    Raises:
        RunError: The output has a fault or can't be read (raised when the output is known).
    """

    def parse_output(text: str) -> T:
        try:
            return channel.read(text, *args, **kwargs)
        except FaultError as error:
            raise pulumi.RunError(str(error)) from None
        except Unreadable as error:
            raise pulumi.RunError(
                f"host {host}: {error}; its output was not used; cure: run again, and check "
                "what a login to the host prints"
            ) from None

    return ran.stdout.apply(parse_output)


def _wait_for_gate(text: pulumi.Input[str], gate: pulumi.Output[str] | None) -> pulumi.Input[str]:
    """Return the text as an output that waits for another output, the gate."""
    if gate is None:
        return text

    async def opened() -> str:
        await gate.future()
        return ""

    waited: pulumi.Output[str] = pulumi.Output.from_input(opened())
    both = pulumi.Output.all(waited, text)
    return both.apply(lambda text_and_gate: str(text_and_gate[1]))
