"""One remote command per host and phase: a script by standard input, applied or undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_command as command

from components.desired.host import DesiredHost
from components.findings import Findings
from components.hosts import maintenance
from components.hosts.answers import Channel, P, T, Unreadable
from components.hosts.connection import command_line, connection, time_limit
from components.hosts.copies import Copies
from components.hosts.script import Declaration
from components.operation import repair_line
from components.workarounds import untraced
from policies.faults import FaultError


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
    Those of hosts in maintenance stay as they are (`components.hosts.maintenance`).
    Where ``kind`` changes, the old script undoes its changes before the new one is applied.
    ``installing`` says how many seconds installers may take on a host, beyond the stack's limit.
    ``more`` is added to the options of each. Changes of the inputs ``kept`` are nothing to a host
    that is as it should be. Whose script isn't a `Declaration` itself, but an output, has said to
    `HostsArgs.copies` what it reads.
    """
    commands = {}
    for host in maintenance.declared(hosts, name):
        longer = installing(host)
        line = command_line(host, "apply", longer)
        update, ignored = repair_line(line, args.findings.get(host.name, ()), kept)
        if host.name in args.left:
            ignored = maintenance.INPUTS
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
                        **maintenance.options(host, ignored),
                    ),
                    more,
                ),
            )
    return commands


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
