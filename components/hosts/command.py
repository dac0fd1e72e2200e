"""One remote command per host and phase: a script by standard input, applied or undone.

Hosts in maintenance: nothing connects to them, and what the state holds of them stays. A resource
that is no longer declared is deleted, and deleting ours undoes what is on the host. So the
resources of such a host go on being declared, with all of their inputs ignored. Of a host that was
never prepared the state holds nothing, so nothing is declared: to make it is to connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_command as command

from components.desired.host import DesiredHost
from components.findings import Findings
from components.hosts.copies import Copies
from components.hosts.script import Declaration
from components.operation import repair_line
from components.ssh.answers import Channel, P, T, Unreadable
from components.workarounds import untraced
from policies.faults import FaultError

COMMAND = "command:remote:Command"
INPUTS = [
    "connection", "create", "update", "delete", "stdin", "triggers", "logging",
    "addPreviousOutputInEnv",
]  # fmt: skip
"""All that we give a command; the engine ignores changes of these."""
READ = "pulumi:pulumi:readStackResourceOutputs"
"""What the engine answers about a stack's resources (pulumi v3.250,
pkg/resource/deploy/builtins.go)."""


@dataclass(frozen=True, kw_only=True)
class HostsArgs:
    """What a component that acts on hosts needs.

    Attributes:
        hosts: all hosts of the stack.
        private_key: an SSH private key, a secret.
        copies: brings the files of the steps to hosts.
        findings: what the inspection found of the hosts, by host.
        join_token: kubeadm's bootstrap token, a secret; needed where hosts join a cluster.
        after: by host, the command that comes before. Host by host, so that a host that does not
            answer keeps no other one from being undone: the engine deletes nothing on which
            something still depends.
        left: hosts on which somebody else is at work: nothing of theirs changes in this run.
        gate: waited for before the first command, without becoming a dependency of the state.
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
    kept: Sequence[str] = (),
) -> dict[str, command.remote.Command]:
    """The commands of one phase, by host.

    Each is applied on create and on every change of its script, and undone on delete. Its output
    never reaches the engine's log, which a long line could stop (pulumi-command 1.2.1, LogOutput).
    Those of hosts in maintenance stay as they are .
    Where ``kind`` changes, the old script undoes its changes before the new one is applied.
    ``installing`` says how many seconds installers may take on a host, beyond the stack's limit.
    ``more`` is added to the options of each. Changes of the inputs ``kept`` are nothing to a host
    that is as it should be. Whose script isn't a `Declaration` itself, but an output, has said to
    `HostsArgs.copies` what it reads.
    """
    commands = {}
    for host in managed_hosts(hosts, name):
        longer = installing(host)
        line = command_line(host, "apply", longer)
        update, ignored = repair_line(line, args.findings.get(host.name, ()), kept)
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
                stdin=_gated(text, args.gate),
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
    """Connection to a host, its key checked, through the bastion where there is one.

    Args:
        host: the host; its ``host_key`` is required by the configuration, as its bastion's is.
        private_key: an SSH private key, a secret.
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
    """The line that runs a script from standard input, ended when it outlasts the limit.

    ``remote.Command`` itself has no time limit (pulumi-command 1.2.1,
    provider/pkg/provider/remote/command.go); 10 s after the limit the script is killed.

    Args:
        host: the host.
        action: ``apply``, ``fetch``, ``upgrade`` or ``undo``.
        installing: seconds that installers may take in addition, each under a limit of its own: a
            package manager that is killed leaves packages half installed.
    """
    line = f"timeout -k 10 {host.ssh.command_timeout_seconds + installing} sh -s -- {action}"
    return line if host.user == "root" else f"sudo -n {line}"


def time_limit(host: DesiredHost, installing: int = 0) -> pulumi.CustomTimeouts:
    """When the engine gives a command up: a host that answers too slowly ends nothing on its own.

    The longest that dialling (pulumi-command waits 5 s at most between two attempts) and the
    command's own limit take together.
    """
    ssh = host.ssh
    attempt = ssh.per_dial_timeout_seconds + 5
    dials = ssh.dial_error_limit * attempt * (2 if host.bastion else 1)
    text = f"{dials + ssh.command_timeout_seconds + installing + 60}s"
    return pulumi.CustomTimeouts(create=text, update=text, delete=text)


def managed_hosts(hosts: tuple[DesiredHost, ...], name: str) -> tuple[DesiredHost, ...]:
    """The hosts of which a command is declared.

    Args:
        hosts: those that the command is for.
        name: the commands' name, to which the host's is added.
    """
    if not any(host.in_maintenance for host in hosts):
        return hosts
    known = _recorded()
    return tuple(
        host
        for host in hosts
        if not host.in_maintenance or f"{COMMAND}::{name}-{host.name}" in known
    )


def options(host: DesiredHost, ignored: list[str]) -> dict[str, Any]:
    """How the engine treats a host's command.

    Args:
        host: the host.
        ignored: inputs of which changes are ignored on a working host, too.
    """
    if not host.in_maintenance:
        return {"ignore_changes": ignored}
    # Also with the whole stack, or with the host's own lines, nothing on the host is undone.
    return {"ignore_changes": INPUTS, "retain_on_delete": True}


def _recorded() -> set[str]:
    """Types and names of the resources that the stack's state holds."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    outputs = pulumi.runtime.invoke(READ, {"stackName": stack}).value or {}
    return {str(urn).rsplit("$", 1)[-1] for urn in outputs.get("outputs") or {}}


def answer(
    ran: command.remote.Command,
    host: str,
    channel: Channel[P, T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> pulumi.Output[T]:
    """Read what a command printed on a host.

    Args:
        ran: the command.
        host: its name, for errors.
        channel: what is read of it; ``args`` and ``kwargs`` are the channel's own.
    """

    def read(text: str) -> T:
        try:
            return channel.read(text, *args, **kwargs)
        except FaultError as error:
            raise pulumi.RunError(str(error)) from None
        except Unreadable as error:
            raise pulumi.RunError(f"host {host}: {error}; nothing of it was used") from None

    return ran.stdout.apply(read)


def _gated(text: pulumi.Input[str], gate: pulumi.Output[str] | None) -> pulumi.Input[str]:
    """The text, once the gate is open."""
    if gate is None:
        return text

    async def opened() -> str:
        await gate.future()
        return ""

    waited: pulumi.Output[str] = pulumi.Output.from_input(opened())
    both = pulumi.Output.all(waited, text)
    return both.apply(lambda found: str(found[1]))
