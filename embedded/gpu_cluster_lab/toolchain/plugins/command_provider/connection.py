"""SSH connections of commands: attempts and a jump host. `gpu_cluster.ssh` logs in and explains."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from gpu_cluster.ssh.client import log_in
from gpu_cluster.ssh.keys import fingerprint, read_key
from gpu_cluster.ssh.login import Login, LoginFailed, unreadable_host_key, unreadable_key
from gpu_cluster.ssh.upload import DELAY_FACTOR, FIRST_DELAY, LONGEST_DELAY

from . import inputs
from .output import CommandError

KEEPALIVE: dict[str, Any] = {"keepalive_interval": 15, "keepalive_count_max": 4}
"""A connection without an answer for 4 × 15 s is lost."""

Note = Callable[[str], None]


@dataclass(frozen=True)
class Endpoint:
    """Host to log in to, from a command's input `connection` or `connection.proxy`."""

    address: str
    port: int
    user: str
    host_key: str
    dial_error_limit: int
    per_dial_timeout: int
    private_key: str = field(repr=False)

    def __str__(self) -> str:
        """Return ``host:port``, with an IPv6 address in brackets."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


def endpoint(connection: Mapping[str, Any]) -> Endpoint:
    """Return the endpoint that the validated inputs of a connection describe.

    Raises:
        CommandError: The inputs contain no host key (which is possible in a state that the official
            plugin wrote).
    """
    if not connection.get("hostKey"):
        raise CommandError(f"connection.hostKey: {inputs.missing_host_key(connection)}")
    declared = {name: value for name, value in connection.items() if value is not None}
    return Endpoint(
        address=declared["host"],
        port=int(declared.get("port", 22)),
        user=declared.get("user", "root"),
        host_key=declared["hostKey"],
        dial_error_limit=int(declared.get("dialErrorLimit", 10)),
        per_dial_timeout=int(declared.get("perDialTimeout", 15)),
        private_key=declared.get("privateKey", ""),
    )


@asynccontextmanager
async def connect(
    connection: Mapping[str, Any], note: Note
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Open an SSH connection, through `connection.proxy` if declared; close it at the end.

    Raises:
        CommandError: A key can't be read, a host key does not match, or the number of attempts
            exceeded `dialErrorLimit`. The message names the stage of the login and the host.
    """
    async with AsyncExitStack() as stack:
        jump: asyncssh.SSHClientConnection | None = None
        if connection.get("proxy"):
            proxy = endpoint(connection["proxy"])
            jump = await stack.enter_async_context(_open_connection(proxy, None, note, "bastion"))
        yield await stack.enter_async_context(
            _open_connection(endpoint(connection), jump, note, "host")
        )


@asynccontextmanager
async def _open_connection(
    target: Endpoint, jump: asyncssh.SSHClientConnection | None, note: Note, at: str
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    connection = await _with_retries(target, jump, note, at)
    try:
        yield connection
    finally:
        connection.close()
        try:
            await asyncio.wait_for(connection.wait_closed(), 2)
        except (TimeoutError, asyncssh.Error, OSError):
            connection.abort()


async def _with_retries(
    target: Endpoint, jump: asyncssh.SSHClientConnection | None, note: Note, at: str
) -> asyncssh.SSHClientConnection:
    """Log in; try again until more than `dialErrorLimit` attempts have failed.

    A limit of -1 means any number of attempts. What no other attempt can heal, such as another host
    key or a refused user, is an error immediately.
    """
    login = Login(target, at)
    try:
        declared = asyncssh.import_public_key(target.host_key)
    except ValueError as error:
        raise CommandError(str(unreadable_host_key(login, error).fault(str(target)))) from None
    try:
        key = read_key(target.private_key)
    except ValueError as error:
        raise CommandError(str(unreadable_key(login, error).fault(str(target)))) from None
    seconds = target.per_dial_timeout or math.inf
    login = Login(target, at, fingerprint(declared), seconds=seconds)
    failed, delay = 0, FIRST_DELAY
    while True:
        failed += 1
        is_last = 0 <= target.dial_error_limit < failed
        try:
            return await log_in(login, declared, key, jump, is_last=is_last, keepalive=KEEPALIVE)
        except LoginFailed as error:
            failure = error.failure
            if is_last or (failure.is_refused and not failure.is_transient):
                raise CommandError(str(failure.fault(str(target), failed))) from None
            limit = "inf" if target.dial_error_limit < 0 else target.dial_error_limit
            note(f"Dial {target} {failed}/{limit} failed ({failure.at_stage}): retrying")
        await asyncio.sleep(delay)
        delay = min(delay * DELAY_FACTOR, LONGEST_DELAY)
