"""Read-only inspection of hosts over SSH: one connection and one command per host, in parallel."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import asyncssh

from gpu_cluster.desired.host import Target
from gpu_cluster.host_facts import HostFacts
from gpu_cluster.hosts.observed.probe import PROBE, probe
from gpu_cluster.ssh.answers import Unreadable
from gpu_cluster.ssh.client import connect, run, shell
from gpu_cluster.ssh.key_files import PROBE_KEY_FILE
from gpu_cluster.ssh.keys import read_key
from gpu_cluster.ssh.login import Endpoint, Login, LoginFailed, LoginFailure, unreadable_key
from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable

PROBE_LIMIT = 10.0
"""Seconds for the probe of one host, after the login (`ssh.perDialTimeoutSeconds`)."""
AT_ONCE = 64
"""Maximum number of hosts that are inspected in parallel."""


Tunnel = asyncssh.SSHClientConnection | HostFacts | None
"""A connection to a bastion, the reason why there is none, or None without a bastion."""


async def observe_hosts(
    hosts: Sequence[Target],
    private_key: str,
    limit: float = PROBE_LIMIT,
    places: Sequence[str] = (),
) -> dict[str, HostFacts]:
    """Inspect all hosts in parallel, and return the facts of each host by name.

    Each host's key is checked against its `host_key`. A host that can't be inspected never raises:
    the reason is in the `error` of its facts. No SSH configuration, agent or known_hosts file of
    the user or the system is read.

    Args:
        hosts: Hosts to inspect. Hosts with the same bastion share one connection to the bastion.
        private_key: SSH private key.
        limit: Seconds for the probe of each host, after the login.
        places: Registries and licence servers (`host:port`) that each host tries to reach.
    """
    if not hosts:
        return {}
    try:
        key = read_key(private_key)
    except ValueError as error:
        return {host.name: facts_of(unreadable_key(Login(host), error)) for host in hosts}
    gate = asyncio.Semaphore(AT_ONCE)
    settings = f"GC_PLACES={shlex.quote(' '.join(dict.fromkeys(places)))}\n"
    async with contextlib.AsyncExitStack() as connections:
        tunnels = await _open_tunnels(hosts, key, connections)

        async def inspected(host: Target) -> HostFacts:
            tunnel = tunnels[host.bastion] if host.bastion is not None else None
            if isinstance(tunnel, HostFacts):
                return tunnel
            async with gate:
                return await _probe_host(host, key, tunnel, limit, settings)

        answers = await asyncio.gather(*map(inspected, hosts))
    return {host.name: facts for host, facts in zip(hosts, answers, strict=True)}


async def _open_tunnels(
    hosts: Sequence[Target],
    key: asyncssh.SSHKey,
    connections: contextlib.AsyncExitStack,
) -> dict[Endpoint, Tunnel]:
    """Open one SSH connection to each bastion of the hosts; the exit stack closes it."""
    seconds: dict[Endpoint, int] = {}
    for host in hosts:
        if host.bastion is not None:
            seconds[host.bastion] = max(seconds.get(host.bastion, 0), host.login_seconds)

    async def dial(bastion: Endpoint) -> Tunnel:
        login = connect(bastion, key, seconds[bastion], at="bastion")
        try:
            return await connections.enter_async_context(login)
        except LoginFailed as error:
            return facts_of(error.failure)

    dialled = await asyncio.gather(*map(dial, seconds))
    return dict(zip(seconds, dialled, strict=True))


def inspecting_key(private_key: str) -> str:
    """Return the SSH key for the inspection: the probe's own key if it is configured.

    Args:
        private_key: The stack's SSH private key.

    Raises:
        FaultError: The key can't be read.
    """
    path = os.environ.get(PROBE_KEY_FILE)
    try:
        text = Path(path).read_text() if path else private_key
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable_key(f"{PROBE_KEY_FILE}: {error}") from None
    try:
        read_key(text)
    except ValueError as error:
        raise _unusable_key(str(error)) from None
    return text


def _unusable_key(found: str) -> FaultError:
    return FaultError(
        Fault(
            "SSH private key (gpu-cluster:sshPrivateKey, or the file that the environment names)",
            found,
            "a private key in the format of OpenSSH or PEM, without a passphrase",
            "`ssh-keygen -t ed25519 -N '' -f stack_key`, its public half on the hosts, "
            "`pulumi config set --secret gpu-cluster:sshPrivateKey < stack_key`",
        )
    )


async def _probe_host(
    host: Target,
    key: asyncssh.SSHKey,
    tunnel: asyncssh.SSHClientConnection | None,
    limit: float,
    settings: str,
) -> HostFacts:
    script = f"{settings}{probe()}"
    try:
        async with connect(host, key, host.login_seconds, tunnel) as connection:
            answered = await run(connection, shell(host, limit), script, PROBE, limit)
        if answered.status == 0:
            return answered.read()
        found = f"the probe ended with status {answered.status}: {_last_error(answered.errors)}"
    except LoginFailed as error:
        return facts_of(error.failure)
    except Unreadable as error:
        found = str(error)
    cure = "correct what the message names, then run again"
    return HostFacts(error=printable(found), wanted="the facts that the probe prints", cure=cure)


def _last_error(errors: Sequence[str]) -> str:
    return (errors or ["no message"])[-1]


def facts_of(failure: LoginFailure) -> HostFacts:
    """Return the facts of a host to which a login failed."""
    return HostFacts(
        error=failure.found,
        wanted=failure.wanted,
        cure=failure.cure,
        refused=failure.is_refused,
    )
