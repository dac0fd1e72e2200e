"""SSH connections: authentication, pinned host keys, dial limits, one jump host."""

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
"""A connection that answers nothing for 15 s × 4 is lost."""

MODERN = {"kex_algs": "-*sha1,gss-*", "mac_algs": "-hmac-sha1*", "signature_algs": "-ssh-rsa"}
"""What a connection may agree on: AsyncSSH's defaults without SHA-1, as OpenSSH's own since 8.8."""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]

_FIRST_DELAY, _DELAY_FACTOR, _LONGEST_DELAY = 0.1, 1.5, 5.0
"""Seconds between dials, as in pulumi/pulumi sdk/go/common/util/retry."""

Note = Callable[[str], None]
Dial = Callable[[], Awaitable[asyncssh.SSHClientConnection]]


@dataclass(frozen=True)
class Endpoint:
    """One host to log in to; the inputs of `connection` or `connection.proxy`."""

    host: str
    port: int
    user: str
    host_key: str
    dial_error_limit: int
    per_dial_timeout: int
    agent_socket: str | None = None
    password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def endpoint(connection: Mapping[str, Any], environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that checked inputs name; by what it logs in.

    Raises:
        CommandError: no host key (a state written by the official plugin can lack it).
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
        agent_socket=_agent_socket(given, environment),
        password=given.get("password"),
        private_key=given.get("privateKey"),
        private_key_password=given.get("privateKeyPassword"),
    )


def _agent_socket(given: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """The agent that may log in: the declared one, or where nothing else is declared the user's.

    A key of the user's that nobody declared for a host is not shown to it: a compromised host
    would learn whose it is, and where else it logs in.
    """
    if declared := given.get("agentSocketPath"):
        return str(declared)
    if given.get("privateKey") or given.get("password"):
        return None
    return environment.get("SSH_AUTH_SOCK") or None


class _Client(asyncssh.SSHClient):
    """Answers keyboard-interactive questions with the password; remembers a refused host key."""

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
    connection: Mapping[str, Any], environment: Mapping[str, str], note: Note
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """A logged-in connection, through `connection.proxy` if there is one; closed at the end.

    Raises:
        CommandError: a key cannot be read, a host key does not match, or `dialErrorLimit` is
            used up; names the host.
    """
    async with AsyncExitStack() as stack:
        jump: asyncssh.SSHClientConnection | None = None
        if connection.get("proxy"):
            proxy = endpoint(connection["proxy"], environment)
            try:
                jump = await stack.enter_async_context(_dial(proxy, None, note))
            except CommandError as error:
                raise CommandError(f"proxy {error}") from None
        yield await stack.enter_async_context(_dial(endpoint(connection, environment), jump, note))


@asynccontextmanager
async def _dial(
    target: Endpoint, jump: asyncssh.SSHClientConnection | None, note: Note
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    trusted = _host_key(target)
    own_key = _private_key(target)

    async def attempt() -> asyncssh.SSHClientConnection:
        async with AsyncExitStack() as stack:
            client = _Client(target.password)
            keys = [own_key] if own_key else []
            keys += await _agent_keys(target, stack, required=not keys and target.password is None)
            try:
                connection, _ = await asyncssh.create_connection(
                    lambda: client,
                    target.host,
                    target.port,
                    username=target.user,
                    password=target.password,
                    client_keys=keys or None,
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
    """Algorithms for a server: its RSA key must not sign by SHA-1 either."""
    if trusted.get_algorithm() != "ssh-rsa":
        return {**MODERN}
    return {**MODERN, "server_host_key_algs": _RSA}


async def _with_retries(target: Endpoint, attempt: Dial, note: Note) -> Any:
    """Dials until it works or more than `dialErrorLimit` dials failed (-1: without limit)."""
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


async def _agent_keys(target: Endpoint, stack: AsyncExitStack, *, required: bool) -> list[Any]:
    """The agent's keys, after the private key as in the official plugin.

    An agent that does not answer matters only where nothing else can log in.
    """
    if target.agent_socket is None:
        return []
    try:
        client = await asyncssh.connect_agent(target.agent_socket)
        agent = await stack.enter_async_context(client)
        return list(await agent.get_keys())
    except (OSError, ValueError, asyncssh.Error) as error:
        if required:
            raise CommandError(f"{target}: SSH agent {target.agent_socket}: {error}") from None
        return []


def _mismatch(target: Endpoint, trusted: asyncssh.SSHKey, refused: asyncssh.SSHKey | None) -> str:
    key = f"{refused.get_algorithm()} {refused.get_fingerprint()}" if refused else "another key"
    return (
        f"{target}: host key mismatch: found {key}, wanted {trusted.get_algorithm()} "
        f"{trusted.get_fingerprint()} (connection.hostKey). Nothing was run. If the host was "
        f"reinstalled, compare with `ssh-keyscan -p {target.port} {target.host}` and pin the new "
        "key; if not, someone stands in between."
    )
