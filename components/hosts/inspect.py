"""A read-only look at hosts by SSH: one connection, one command each, all at once."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncssh
from pydantic import TypeAdapter

from components.desired.host import Target
from components.hosts.facts import HostFacts
from components.hosts.probe import LONGEST, PROBE, probe
from components.hosts.reach import (
    Connections,
    Endpoint,
    connect,
    read_key,
    run,
    shell,
)
from components.hosts.unreached import unreached
from config.printable import printable

PROBE_LIMIT = 10.0
"""Seconds for one host: connection, log-in and probe together."""
AT_ONCE = 64
"""Hosts that are looked at together."""
PROBE_KEY_FILE = "GPU_CLUSTER_PROBE_KEY_FILE"
"""Variable with the file of a key that hosts tie to the probe (`make probe-key`), used before the
stack's: previews have no other."""


Tunnel = asyncssh.SSHClientConnection | HostFacts | None
"""A connection to a bastion, why there is none, or no bastion."""


async def observe(
    hosts: Sequence[Target], private_key: str, limit: float = PROBE_LIMIT
) -> dict[str, HostFacts]:
    """Look at every host, in parallel, each host's key checked against its ``host_key``.

    Never raises for a host: what went wrong is the ``error`` of its facts. No user or system SSH
    configuration, agent or known_hosts file is read.

    Args:
        hosts: those with the same bastion share one connection to it.
        private_key: an SSH private key.
        limit: seconds for each host; also for the connection to a bastion.
    """
    if not hosts:
        return {}
    key = read_key(private_key)
    if isinstance(key, str):
        broken = HostFacts(error=f"the SSH private key can't be read: {key}", refused=True)
        return {host.name: broken for host in hosts}
    async with Connections() as connections:
        return await _observe(hosts, key, limit, connections)


async def _observe(
    hosts: Sequence[Target],
    key: asyncssh.SSHKey,
    limit: float,
    connections: Connections,
    registries: Sequence[str] = (),
) -> dict[str, HostFacts]:
    gate = asyncio.Semaphore(AT_ONCE)
    asked = f"GC_REGISTRIES={shlex.quote(' '.join(registries))}\n"
    bastions = {_name(host.bastion): host.bastion for host in hosts if host.bastion is not None}

    async def dial(bastion: Endpoint) -> Tunnel:
        try:
            async with asyncio.timeout(limit):
                return await connections.enter_async_context(connect(bastion, key, None))
        except (OSError, asyncssh.Error, TimeoutError) as error:
            return _failure(error, bastion, limit, "bastion: ")

    dialled = await asyncio.gather(*map(dial, bastions.values()))
    tunnels: dict[str, Tunnel] = dict(zip(bastions, dialled, strict=True))

    async def look(host: Target) -> HostFacts:
        tunnel = tunnels[_name(host.bastion)] if host.bastion is not None else None
        if isinstance(tunnel, HostFacts):
            return tunnel
        async with gate:
            return await _probe(host, key, tunnel, limit, connections, asked)

    answers = await asyncio.gather(*(look(host) for host in hosts))
    return {host.name: facts for host, facts in zip(hosts, answers, strict=True)}


async def answer(request: dict[str, Any], connections: Connections) -> dict[str, Any]:
    """`observe` for a request, over connections that stay open.

    Args:
        request: ``hosts`` as declared, ``privateKey``, ``registries``: ``host:port`` that hosts are
            asked whether they reach.
        connections: closes them.

    Returns:
        ``facts`` by host, and ``problems``: what must stop the run before any host is asked.
    """
    hosts = TypeAdapter(list[Target]).validate_python(request["hosts"])
    if not hosts:
        return {"facts": {}, "problems": []}
    try:
        path = os.environ.get(PROBE_KEY_FILE)
        key = read_key(Path(path).read_text() if path else request["privateKey"])
    except (OSError, UnicodeDecodeError) as error:
        key = f"{PROBE_KEY_FILE}: {error}"
    if isinstance(key, str):
        problem = (
            "SSH private key (gpu-cluster:sshPrivateKey, or the file that the environment names): "
            f"found {key}; wanted: one in the format of OpenSSH or PEM, without a passphrase; "
            "cure: `ssh-keygen -t ed25519 -N '' -f stack_key`, its public half on the hosts, "
            "`pulumi config set --secret gpu-cluster:sshPrivateKey < stack_key`"
        )
        return {"facts": {}, "problems": [problem]}
    seen = await _observe(hosts, key, PROBE_LIMIT, connections, request.get("registries", ()))
    facts = {name: dataclasses.asdict(host_facts) for name, host_facts in seen.items()}
    return {"facts": facts, "problems": []}


def _name(endpoint: Endpoint) -> str:
    """What tells two bastions apart."""
    return f"{endpoint.user}@{endpoint.address}:{endpoint.port} {endpoint.host_key}"


async def _probe(
    host: Target,
    key: asyncssh.SSHKey,
    tunnel: asyncssh.SSHClientConnection | None,
    limit: float,
    connections: Connections,
    asked: str,
) -> HostFacts:
    try:
        async with asyncio.timeout(limit), contextlib.AsyncExitStack() as ends:
            connection = await ends.enter_async_context(connect(host, key, tunnel))
            text = f"{asked}{probe()}"
            answered = await run(connection, shell(host, limit), text, PROBE)
            connections.keep(host, connection, ends)
        if answered.status == 0:
            return answered.read()
    except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
        return _failure(error, host, limit)
    last = (answered.errors or ["no message"])[-1]
    found = f"the probe ended with status {answered.status}: {last}"
    return HostFacts(error=printable(found, LONGEST))


def _failure(error: BaseException, to: Endpoint, limit: float, where: str = "") -> HostFacts:
    why = unreached(error, to, limit)
    return HostFacts(
        error=printable(where + why.found, LONGEST),
        wanted=why.wanted,
        cure=printable(why.cure),
        refused=why.refused,
    )
