"""A host by SSH: one connection, its key checked, and what a script prints there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import asyncssh

from components.ssh.answers import ANSWER, Channel, last_lines
from components.ssh.keys import fingerprint, read_key

T = TypeVar("T")
MODERN: dict[str, Any] = {
    "kex_algs": "-*sha1,gss-*",
    "mac_algs": "-hmac-sha1*",
    "signature_algs": "-ssh-rsa",
}
"""What a connection may agree on: AsyncSSH's defaults without SHA-1, as OpenSSH's own since 8.8."""
KEEPALIVE: dict[str, Any] = {"keepalive_interval": 5, "keepalive_count_max": 3}
"""A connection over which nothing is answered for 5 s × 3 is lost; `sshd` answers by itself, also
while a command there takes its time."""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]


class Endpoint(Protocol):
    """Where one logs in; `host_key` is the public key that it must show."""

    @property
    def address(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def host_key(self) -> str: ...


class Target(Endpoint, Protocol):
    """A host, behind its bastion where it has one."""

    @property
    def name(self) -> str: ...
    @property
    def bastion(self) -> Endpoint | None: ...


class OtherHostKey(asyncssh.HostKeyNotVerifiable):
    """A host or bastion shows another key than the declared one.

    Attributes:
        to: where it was.
        shown, declared: the fingerprints, as `ssh-keygen -l` prints them.
    """

    def __init__(self, to: Endpoint, shown: str, declared: str) -> None:
        super().__init__(f"shows {shown}, declared is {declared}")
        self.to, self.shown, self.declared = to, shown, declared


class _Client(asyncssh.SSHClient):
    """Notes a key that is not the declared one; trusts none."""

    shown = ""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.shown = fingerprint(key)
        return False


@contextlib.asynccontextmanager
async def reached(host: Target, private_key: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to one host, through its bastion where it has one.

    Raises:
        OSError, asyncssh.Error, ValueError: no connection, another host key, no log-in, no key.
    """
    key = read_key(private_key)
    async with contextlib.AsyncExitStack() as stack:
        tunnel = None
        if host.bastion is not None:
            tunnel = await stack.enter_async_context(connect(host.bastion, key, None))
        yield await stack.enter_async_context(connect(host, key, tunnel))


@contextlib.asynccontextmanager
async def connect(
    to: Endpoint, key: asyncssh.SSHKey, tunnel: asyncssh.SSHClientConnection | None
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to a host or bastion that shows the declared key.

    Raises:
        OSError, asyncssh.Error: no connection, another host key, no log-in.
    """
    trusted, client = asyncssh.import_public_key(to.host_key), _Client()
    try:
        connection = await asyncssh.connect(
            to.address,
            to.port,
            username=to.user,
            client_factory=lambda: client,
            client_keys=[key],
            known_hosts=([trusted], [], []),
            config=None,
            agent_path=None,
            tunnel=tunnel or (),
            **MODERN,
            **KEEPALIVE,
            **({"server_host_key_algs": _RSA} if trusted.get_algorithm() == "ssh-rsa" else {}),
        )
    except asyncssh.HostKeyNotVerifiable as error:
        if not client.shown:
            raise
        raise OtherHostKey(to, client.shown, fingerprint(trusted)) from error
    try:
        yield connection
    finally:
        connection.abort()


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What a script printed on a host; its text is read by its channel only.

    Attributes:
        status: exit status; None where the connection ended before.
        errors: the last lines of standard error, fit to be shown.
    """

    status: int | None
    errors: list[str]
    _text: str = field(repr=False)
    _channel: Channel[[], T] = field(repr=False)

    def read(self) -> T:
        """Return the value of standard output.

        Raises:
            ValueError: the channel doesn't take it.
        """
        return self._channel.read(self._text)


async def printed(
    host: Target, private_key: str, script: str, limit: float, channel: Channel[[], T]
) -> T:
    """What a script of ours prints on a host.

    Raises:
        OSError, asyncssh.Error, TimeoutError: no connection, another host key, no log-in, no end.
        ValueError: the channel doesn't take it.
    """
    async with asyncio.timeout(limit), reached(host, private_key) as connection:
        answer = await run(connection, shell(host, limit), script, channel)
    return answer.read()


def shell(host: Endpoint, limit: float) -> str:
    """The command that runs a script from standard input, ended when it outlasts the limit."""
    command = f"timeout -k 1 {limit:.0f} sh -s"
    return command if host.user == "root" else f"sudo -n {command}"


async def run(
    connection: asyncssh.SSHClientConnection,
    command: str,
    script: str,
    channel: Channel[[], T],
    opening: float | None = None,
) -> Answer[T]:
    """What a script printed, and its status; a host that doesn't stop is left.

    A key that is tied to the probe runs the host's own copy, whatever it is given.

    Args:
        connection: to the host.
        command: runs the script, its standard input.
        script: what it runs.
        channel: what is read of its standard output.
        opening: seconds until the host says that the command has begun; None: no limit.

    Raises:
        TimeoutError: it did not begin.
        ValueError: more bytes than the channel takes.
    """

    async def read(stream: asyncssh.SSHReader[bytes], limit: int) -> str:
        taken = b""
        while part := await stream.read(65536):
            taken += part
            if len(taken) > limit:
                raise ValueError(f"the host answered more than {limit} bytes")
        return taken.decode(errors="replace")

    async with asyncio.timeout(opening):
        process = await connection.create_process(command, encoding=None)
    with contextlib.suppress(BrokenPipeError, ConnectionError):
        process.stdin.write(script.encode())
        process.stdin.write_eof()
    output, errors = await asyncio.gather(
        read(process.stdout, channel.limit), read(process.stderr, ANSWER)
    )
    await process.wait_closed()
    return Answer(process.exit_status, last_lines(errors), output, channel)
