"""One remote command per host and phase: a script by standard input, applied or undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_command as command

import config

from .connection import command_line, connection
from .operation import repair


@dataclass(frozen=True, kw_only=True)
class HostsArgs:
    """What a component that acts on hosts needs.

    Attributes:
        cluster: the configuration.
        private_key: an OpenSSH private key, a secret.
        drift: what the look at the hosts found to differ, by host.
        join_token: kubeadm's bootstrap token, a secret; needed where hosts join a cluster.
    """

    cluster: config.Cluster
    private_key: pulumi.Input[str]
    drift: Mapping[str, str] = field(default_factory=dict)
    join_token: str | None = field(default=None, repr=False)


def host_commands(
    parent: pulumi.ComponentResource,
    name: str,
    hosts: tuple[config.Host, ...],
    args: HostsArgs,
    script: Callable[[config.Cluster, config.Host], pulumi.Input[str]],
    kind: Callable[[config.Cluster], str] | None = None,
) -> dict[str, command.remote.Command]:
    """The commands of one phase, by host.

    Each is applied on create and on every change of its script, and undone on delete. Its output
    never reaches the engine's log, which a long line could stop (pulumi-command 1.2.1, LogOutput).
    Where ``kind`` changes, the old script takes its changes back before the new one is applied.
    """
    ssh = args.cluster.ssh
    commands = {}
    for host in hosts:
        line = command_line(host, ssh, "apply")
        update, ignored = repair(line, args.drift.get(host.name))
        commands[host.name] = command.remote.Command(
            f"{name}-{host.name}",
            connection=connection(host, ssh, args.private_key),
            create=line,
            update=update,
            delete=command_line(host, ssh, "undo"),
            stdin=script(args.cluster.of(host), host),
            triggers=[kind(args.cluster.of(host))] if kind else None,
            logging=command.remote.Logging.NONE,
            add_previous_output_in_env=False,
            opts=pulumi.ResourceOptions(
                parent=parent, ignore_changes=ignored, delete_before_replace=True
            ),
        )
    return commands
