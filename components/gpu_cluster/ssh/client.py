"""SSH client for hosts: connections with checked host keys, and scripts run on a host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import asyncssh

from gpu_cluster.ssh.answers import ANSWER, Channel, last_lines
from gpu_cluster.ssh.keys import fingerprint, read_key

T = TypeVar("T")
MODERN: dict[str, Any] = {
    "kex_algs": "-*sha1,gss-*",
    "mac_algs": "-hmac-sha1*",
    "signature_algs": "-ssh-rsa",
    "compression_algs": ["none"],
}
"""Algorithms of a connection: AsyncSSH's defaults without SHA-1, as in OpenSSH since 8.8.

Nothing is compressed: a few bytes of a host could become hundreds of megabytes in memory.
"""
KEEPALIVE: dict[str, Any] = {"keepalive_interval": 5, "keepalive_count_max": 3}
"""Keepalive settings: a connection without a reply for 3 × 5 s is lost.

`sshd` itself replies to keepalive messages, even while a command is running.
"""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]


class Endpoint(Protocol):
    """SSH server to log in to: its address, user name and public host key."""

    @property
    def address(self) -> str:
        """Return the host name or IP address."""
        ...

    @property
    def port(self) -> int:
        """Return the TCP port."""
        ...

    @property
    def user(self) -> str:
        """Return the user name of the login."""
        ...

    @property
    def host_key(self) -> str:
        """Return the public key that the server must present."""
        ...


class Target(Endpoint, Protocol):
    """Host that is reached over SSH, through a bastion if it has one."""

    @property
    def name(self) -> str:
        """Return the name of the host."""
        ...

    @property
    def bastion(self) -> Endpoint | None:
        """Return the server to connect through; None if the host is reached directly."""
        ...


class OtherHostKey(asyncssh.HostKeyNotVerifiable):
    """Error: a host or bastion presents a host key that differs from the declared one.

    Attributes:
        to: Address and user of the login.
        shown: Fingerprint of the presented key, as `ssh-keygen -l` prints it.
        declared: Fingerprint of the declared key, as `ssh-keygen -l` prints it.
    """

    def __init__(self, to: Endpoint, shown: str, declared: str) -> None:
        """Create the error from both fingerprints."""
        super().__init__(f"shows {shown}, declared is {declared}")
        self.to, self.shown, self.declared = to, shown, declared


class _Client(asyncssh.SSHClient):
    """SSH client that records an undeclared host key and rejects it."""

    shown = ""

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.shown = fingerprint(key)
        return False


@contextlib.asynccontextmanager
async def reached(host: Target, private_key: str) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to one host, through its bastion if it has one.

    Raises:
        OSError, asyncssh.Error, ValueError: No connection, another host key, a rejected login, or
            an unusable private key.
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
    """Connect to a host or bastion that presents the declared host key.

    Raises:
        OSError, asyncssh.Error: No connection, another host key, or a rejected login.
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
    """Result of a script on a host; the output can be read only through the script's channel.

    Attributes:
        status: Exit status. None: the connection ended before the script.
        errors: Last lines of standard error, made safe to display.
    """

    status: int | None
    errors: list[str]
    _text: str = field(repr=False)
    _channel: Channel[[], T] = field(repr=False)

    def read(self) -> T:
        """Return the value parsed from standard output.

        Raises:
            ValueError: The output doesn't have the expected format.
        """
        return self._channel.read(self._text)


async def printed(
    host: Target, private_key: str, script: str, limit: float, channel: Channel[[], T]
) -> T:
    """Run a script on a host and return the parsed output.

    Raises:
        OSError, asyncssh.Error, TimeoutError: No connection, another host key, a rejected login, or
            the time limit has passed.
        ValueError: The output doesn't have the expected format.
    """
    async with asyncio.timeout(limit), reached(host, private_key) as connection:
        answer = await run(connection, shell(host, limit), script, channel)
    return answer.read()


def shell(host: Endpoint, limit: float) -> str:
    """Return a command that runs a script from standard input and stops it after a time limit."""
    command = f"timeout -k 1 {limit:.0f} sh -s"
    return command if host.user == "root" else f"sudo -n {command}"


async def run(
    connection: asyncssh.SSHClientConnection,
    command: str,
    script: str,
    channel: Channel[[], T],
    opening: float | None = None,
) -> Answer[T]:
    """Run a script and return its status and output; stop reading if a host prints too much.

    A host can restrict an SSH key to the inspection's script (`make probe-key`). A login with this
    key runs the host's copy of that script and ignores the argument `script`.

    Args:
        connection: Connection to the host.
        command: Command that runs the script from standard input.
        script: Text of the script.
        channel: Parser of standard output.
        opening: Seconds until the host must have started the command. None: no limit.

    Raises:
        TimeoutError: The command did not start in time.
        ValueError: The host printed more bytes than the channel allows.
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
