"""How a host is reached, as pulumi-command wants to hear it."""

from __future__ import annotations

import pulumi
import pulumi_command as command

from components.desired.host import DesiredHost


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
