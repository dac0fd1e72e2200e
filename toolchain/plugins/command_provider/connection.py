"""SSH connections: authentication, pinned host keys, connection attempts, a jump host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncssh

from . import inputs
from .output import CommandError

KEEPALIVE_INTERVAL = 15
KEEPALIVE_COUNT = 4
"""Number of unanswered keepalive messages after which a connection is lost: 15 s × 4 = 60 s."""

MODERN: dict[str, Any] = {
    "kex_algs": "-*sha1,gss-*",
    "mac_algs": "-hmac-sha1*",
    "signature_algs": "-ssh-rsa",
    "compression_algs": ["none"],
}
"""The algorithms that a connection may use: AsyncSSH's defaults without SHA-1 and compression.

A few compressed bytes could become hundreds of megabytes in memory.

OpenSSH has disabled SHA-1 signatures too since version 8.8.
"""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]

_FIRST_DELAY, _DELAY_FACTOR, _LONGEST_DELAY = 0.1, 1.5, 5.0
"""Seconds between connection attempts, as in pulumi/pulumi sdk/go/common/util/retry.

The values are the first delay, the factor for each further delay, and the longest delay.
"""

Note = Callable[[str], None]
Dial = Callable[[], Awaitable[asyncssh.SSHClientConnection]]


@dataclass(frozen=True)
class Endpoint:
    """Host to log in to, from a command's input `connection` or `connection.proxy`."""

    host: str
    port: int
    user: str
    host_key: str
    dial_error_limit: int
    per_dial_timeout: int
    password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        """Return ``host:port``, with an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def endpoint(connection: Mapping[str, Any]) -> Endpoint:
    """Return the endpoint that the validated inputs of a connection describe.

    Raises:
        CommandError: The inputs contain no host key (which is possible in a state that the official
            plugin wrote).
    """
    if not connection.get("hostKey"):
        raise CommandError(f"connection.hostKey: {inputs.missing_host_key(connection)}")
    given = {name: value for name, value in connection.items() if value is not None}
    return Endpoint(
        host=given["host"],
        port=int(given.get("port", 22)),
        user=given.get("user", "root"),
        host_key=given["hostKey"],
        dial_error_limit=int(given.get("dialErrorLimit", 10)),
        per_dial_timeout=int(given.get("perDialTimeout", 15)),
        password=given.get("password"),
        private_key=given.get("privateKey"),
        private_key_password=given.get("privateKeyPassword"),
    )


class _Client(asyncssh.SSHClient):
    """SSH client that answers keyboard-interactive prompts with the password.

    It also records the host key that was refused.
    """

    def __init__(self, password: str | None) -> None:
        self._password = password
        self._answered = False
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.refused = key
        return False

    def kbdint_auth_requested(self) -> str | None:
        if self._password is None or self._answered:
            return None
        self._answered = True
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: Any
    ) -> list[str]:
        return [self._password or "" for _ in prompts]


@asynccontextmanager
async def connect(
    connection: Mapping[str, Any], note: Note
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Open an SSH connection, through `connection.proxy` if declared; close it at the end.

    Raises:
        CommandError: A key can't be read, a host key does not match, or the number of attempts
            exceeded `dialErrorLimit`. The message names the host.
    """
    async with AsyncExitStack() as stack:
        jump: asyncssh.SSHClientConnection | None = None
        if connection.get("proxy"):
            proxy = endpoint(connection["proxy"])
            try:
                jump = await stack.enter_async_context(_dial(proxy, None, note))
            except CommandError as error:
                raise CommandError(f"proxy {error}") from None
        yield await stack.enter_async_context(_dial(endpoint(connection), jump, note))


@asynccontextmanager
async def _dial(
    target: Endpoint, jump: asyncssh.SSHClientConnection | None, note: Note
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    trusted = _host_key(target)
    own_key = _private_key(target)

    async def attempt() -> asyncssh.SSHClientConnection:
        client = _Client(target.password)
        try:
            connection, _ = await asyncssh.create_connection(
                lambda: client,
                target.host,
                target.port,
                username=target.user,
                password=target.password,
                client_keys=[own_key] if own_key else None,
                # Use no SSH agent: a compromised host would see keys that nobody declared for it.
                agent_path=None,
                known_hosts=([trusted], [], []),
                tunnel=jump or (),
                config=None,
                **_modern(trusted),
                connect_timeout=target.per_dial_timeout or None,
                login_timeout=target.per_dial_timeout or 0,
                keepalive_interval=KEEPALIVE_INTERVAL,
                keepalive_count_max=KEEPALIVE_COUNT,
            )
        except asyncssh.HostKeyNotVerifiable:
            raise CommandError(_mismatch(target, trusted, client.refused)) from None
        return connection

    connection = await _with_retries(target, attempt, note)
    try:
        yield connection
    finally:
        connection.close()
        try:
            await asyncio.wait_for(connection.wait_closed(), 2)
        except (TimeoutError, asyncssh.Error, OSError):
            connection.abort()


def _modern(trusted: asyncssh.SSHKey) -> dict[str, Any]:
    """Return the signature algorithms that a server may use; an RSA host key must not use SHA-1."""
    if trusted.get_algorithm() != "ssh-rsa":
        return {**MODERN}
    return {**MODERN, "server_host_key_algs": _RSA}


async def _with_retries(target: Endpoint, attempt: Dial, note: Note) -> Any:
    """Try to connect until it succeeds or more than `dialErrorLimit` attempts have failed.

    A limit of -1 means any number of attempts.
    """
    failed, delay = 0, _FIRST_DELAY
    while True:
        try:
            return await attempt()
        except (OSError, asyncssh.Error, TimeoutError) as error:
            failed += 1
            reason = str(error) or type(error).__name__
            if 0 <= target.dial_error_limit < failed:
                raise CommandError(
                    f"{target}: no connection as {target.user} after {failed} "
                    f"attempt{'s' if failed > 1 else ''}: {reason}"
                ) from None
            limit = "inf" if target.dial_error_limit < 0 else target.dial_error_limit
            note(f"Dial {target} {failed}/{limit} failed ({reason}): retrying")
        await asyncio.sleep(delay)
        delay = min(delay * _DELAY_FACTOR, _LONGEST_DELAY)


def _host_key(target: Endpoint) -> asyncssh.SSHKey:
    try:
        return asyncssh.import_public_key(target.host_key)
    except asyncssh.KeyImportError as error:
        raise CommandError(f"{target}: hostKey cannot be read: {error}") from None


def _private_key(target: Endpoint) -> asyncssh.SSHKey | None:
    if target.private_key is None:
        return None
    try:
        return asyncssh.import_private_key(target.private_key, target.private_key_password)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        raise CommandError(
            f"{target}: privateKey cannot be read: {error}. Wanted: a private key in OpenSSH or "
            "PEM format, and privateKeyPassword if it is encrypted."
        ) from None


def _mismatch(target: Endpoint, trusted: asyncssh.SSHKey, refused: asyncssh.SSHKey | None) -> str:
    key = f"{refused.get_algorithm()} {refused.get_fingerprint()}" if refused else "another key"
    return (
        f"{target}: host key mismatch: found {key}, wanted {trusted.get_algorithm()} "
        f"{trusted.get_fingerprint()} (connection.hostKey). Nothing was run. If the host was "
        f"reinstalled, compare with `ssh-keyscan -p {target.port} {target.host}` and pin the new "
        "key; if not, someone stands in between."
    )
