"""SSH client for hosts: connections with checked host keys, and scripts run on a host."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

import asyncssh

from gpu_cluster.ssh.answers import ANSWER, Channel, Unreadable, last_lines
from gpu_cluster.ssh.keys import fingerprint, read_key
from gpu_cluster.ssh.login import (
    Endpoint,
    Login,
    LoginFailed,
    Progress,
    explain,
    explain_refused_session,
    explain_script,
    explain_session,
    text_of,
    unreadable_host_key,
    unreadable_key,
)

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
PREFERRED_KEYS = "^ssh-ed25519,ecdsa-sha2-*"
"""Host keys that a scan asks for first.

AsyncSSH itself takes a server's RSA key before another one, also one that is too short for a stack
file, although the server has a better key.
"""
KEEPALIVE: dict[str, Any] = {"keepalive_interval": 5, "keepalive_count_max": 3}
"""Keepalive settings: a connection without a reply for 3 × 5 s is lost.

`sshd` itself replies to keepalive messages, even while a command is running.
"""
PAUSES: Sequence[float] = (0.3, 0.8, 2.0)
"""Seconds between the tries of a login whose failure another try may heal."""
_RSA = ["rsa-sha2-512", "rsa-sha2-256"]
_BEGUN = "gpu-cluster: the script begins"
"""Line that a script prints first on standard error: login, shell and sudo have worked."""
_BANNER, _BANNER_SECONDS = 512, 2.0
_LOGIN = "gpu_cluster_login"
"""Name of a connection's extra information: the login that opened it."""


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

    @property
    def login_seconds(self) -> int:
        """Return the time limit of one try to log in (`ssh.perDialTimeoutSeconds`)."""
        ...


class _Client(asyncssh.SSHClient):
    """SSH client that records how far a login came, and rejects an undeclared host key."""

    def __init__(self, key: asyncssh.SSHKey | None = None) -> None:
        self.key = key
        self.progress = Progress()
        self._connection: asyncssh.SSHClientConnection | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        self.progress.is_connected = True
        self._connection = conn
        _explain_before_end(conn)

    def ended(self) -> Progress:
        """Return how far the login came."""
        version = self._connection and self._connection.get_extra_info("server_version")
        self.progress.is_greeted = bool(version)
        return self.progress

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        self.progress.shown = fingerprint(key)
        return False

    def auth_banner_received(self, msg: str, lang: str) -> None:
        self.progress.words.append(msg[:_BANNER])

    def public_key_auth_requested(self) -> asyncssh.SSHKey | None:
        self.progress.keys += 1
        return self.key if self.progress.keys == 1 else None

    def password_auth_requested(self) -> None:
        self.progress.asked = self.progress.asked or "a password"

    def kbdint_auth_requested(self) -> None:
        self.progress.asked = self.progress.asked or "a code or a password"


def _explain_before_end(connection: asyncssh.SSHClientConnection) -> None:
    """Let a connection fail with its own error before it fails with the end of the stream.

    AsyncSSH 2.24 reads a server's offer of algorithms in a task, and takes the error of that task
    one turn of the event loop later. A server that closes the connection together with its offer,
    as OpenSSH does, then looks like a lost connection (connection.py, _process_kexinit,
    _reap_task, eof_received).
    """
    end = connection.eof_received

    def end_in_next_turn() -> bool:
        asyncio.get_running_loop().call_soon(end)
        return True  # Keep the transport open until the method `end` closes it.

    connection.eof_received = end_in_next_turn  # type: ignore[method-assign,assignment]


@contextlib.asynccontextmanager
async def reached(
    host: Target, private_key: str, pauses: Sequence[float] = PAUSES
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Connect to one host, through its bastion if it has one.

    Args:
        host: Host to log in to.
        private_key: SSH private key.
        pauses: Seconds between the tries of a login that another try may heal.

    Raises:
        LoginFailed: The login failed at one of its stages.
    """
    try:
        key = read_key(private_key)
    except ValueError as error:
        raise LoginFailed(unreadable_key(Login(host), error)) from None
    seconds = host.login_seconds
    async with contextlib.AsyncExitStack() as stack:
        tunnel = None
        if host.bastion is not None:
            bastion = connect(host.bastion, key, seconds, pauses=pauses, at="bastion")
            tunnel = await stack.enter_async_context(bastion)
        yield await stack.enter_async_context(connect(host, key, seconds, tunnel, pauses))


@contextlib.asynccontextmanager
async def connect(
    to: Endpoint,
    key: asyncssh.SSHKey,
    seconds: float,
    tunnel: asyncssh.SSHClientConnection | None = None,
    pauses: Sequence[float] = PAUSES,
    at: str = "host",
) -> AsyncIterator[asyncssh.SSHClientConnection]:
    """Log in to a host or bastion that presents the declared host key.

    Args:
        to: Address, user and host key.
        key: SSH private key.
        seconds: Time limit of one try.
        tunnel: Connection to the bastion.
        pauses: Seconds between the tries of a login that another try may heal.
        at: Who is logged in to: `host` or `bastion`.

    Raises:
        LoginFailed: The login failed at one of its stages.
    """
    try:
        declared = asyncssh.import_public_key(to.host_key)
    except ValueError as error:
        raise LoginFailed(unreadable_host_key(Login(to, at), error)) from None
    login = Login(to, at, fingerprint(declared), seconds=seconds)

    async def attempt(is_last: bool) -> asyncssh.SSHClientConnection:
        return await log_in(login, declared, key, tunnel, is_last=is_last)

    connection = await _tried(attempt, pauses)
    try:
        yield connection
    finally:
        connection.abort()


async def _tried(attempt: Callable[[bool], Awaitable[T]], pauses: Sequence[float]) -> T:
    """Return the result of an attempt; try again as long as another try may heal it.

    Args:
        attempt: What is tried; gets True if no other try follows.
        pauses: Seconds between the tries.

    Raises:
        LoginFailed: The last try failed, or a try failed that no other try heals.
    """
    for pause in pauses:
        try:
            return await attempt(False)
        except LoginFailed as error:
            if not error.failure.is_transient:
                raise
        await asyncio.sleep(pause)
    return await attempt(True)


async def log_in(
    login: Login,
    declared: asyncssh.SSHKey,
    key: asyncssh.SSHKey,
    tunnel: asyncssh.SSHClientConnection | None,
    *,
    is_last: bool,
    keepalive: Mapping[str, Any] = KEEPALIVE,
) -> asyncssh.SSHClientConnection:
    """Try once to log in to a server that presents the declared host key.

    Args:
        login: What is tried, with its time limit.
        declared: Host key that the server must present.
        key: SSH private key.
        tunnel: Connection to the bastion.
        is_last: True if no other try follows; only then a server that sends no SSH greeting is
            connected to again for what it sends.
        keepalive: Keepalive settings of the connection.

    Raises:
        LoginFailed: The login failed at one of its stages.
    """
    to, client = login.to, _Client(key)
    try:
        async with asyncio.timeout(login.seconds):
            connection = await asyncssh.connect(
                to.address,
                to.port,
                username=to.user,
                client_factory=lambda: client,
                client_keys=None,
                known_hosts=([declared], [], []),
                config=None,
                agent_path=None,
                tunnel=tunnel or (),
                **MODERN,
                **keepalive,
                **({"server_host_key_algs": _RSA} if declared.get_algorithm() == "ssh-rsa" else {}),
            )
    except (OSError, asyncssh.Error, TimeoutError) as error:
        progress = client.ended()
        if is_last and progress.is_connected and not progress.is_greeted:
            progress.words += await _banner(to, tunnel)
        if tunnel is not None:
            login = replace(login, through=tunnel.get_extra_info(_LOGIN).to)
        raise LoginFailed(explain(error, login, progress)) from error
    connection.set_extra_info(**{_LOGIN: login})
    return connection


async def scan_key(login: Login, pauses: Sequence[float] = PAUSES) -> asyncssh.SSHKey | None:
    """Return the key that a server presents, without a login; None if it has none.

    Args:
        login: Server to connect to, with the time limit of one try.
        pauses: Seconds between the tries of a scan that another try may heal.

    Raises:
        LoginFailed: The connection failed at one of its stages.
    """

    async def attempt(is_last: bool) -> asyncssh.SSHKey | None:
        return await _scan_key_once(login, is_last=is_last)

    return await _tried(attempt, pauses)


async def _scan_key_once(login: Login, *, is_last: bool) -> asyncssh.SSHKey | None:
    client = _Client()
    options = asyncssh.SSHClientConnectionOptions(
        **MODERN, config=None, client_factory=lambda: client
    )
    try:
        async with asyncio.timeout(login.seconds):
            return await asyncssh.get_server_host_key(
                login.to.address,
                login.to.port,
                server_host_key_algs=PREFERRED_KEYS,
                options=options,
            )
    except (OSError, ValueError, asyncssh.Error) as error:
        progress = client.ended()
        if is_last and progress.is_connected and not progress.is_greeted:
            progress.words += await _banner(login.to, None)
        raise LoginFailed(explain(error, login, progress)) from error


async def _banner(to: Endpoint, tunnel: asyncssh.SSHClientConnection | None) -> list[str]:
    """Return what a server sends in place of an SSH greeting; the SSH library drops such lines."""
    with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
        async with asyncio.timeout(_BANNER_SECONDS):
            opened: Any = (tunnel or asyncio).open_connection
            reader, writer = await opened(to.address, to.port)
            try:
                writer.write(b"SSH-2.0-\r\n\r\n")
                sent = bytes(await reader.read(_BANNER))
            finally:
                writer.close()
        lines = sent.decode("utf-8", "replace").splitlines()
        return [line for line in lines if not line.startswith("SSH-")]
    return []


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
            Unreadable: The output doesn't have the expected format.
        """
        return self._channel.read(self._text)


async def printed(
    host: Target, private_key: str, script: str, limit: float, channel: Channel[[], T]
) -> T:
    """Run a script on a host and return the parsed output.

    Raises:
        LoginFailed: The login failed, or the script did not end within the limit.
        Unreadable: The output doesn't have the expected format.
    """
    async with reached(host, private_key) as connection:
        result = await run(connection, shell(host, limit), script, channel, limit)
    return result.read()


def shell(host: Endpoint, limit: float) -> str:
    """Return a command that runs a script from standard input and stops it after a time limit."""
    command = f"timeout -k 1 {limit:.0f} sh -s"
    return command if host.user == "root" else f"sudo -n {command}"


@dataclass
class _Output:
    """Output of a session so far: standard output, standard error, and whether our script began."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    has_begun: bool = False

    def add_errors(self, chunk: bytes) -> bool:
        """Add a part of standard error; return True if our script has just begun."""
        self.errors += chunk
        if self.has_begun:
            return False
        mark = f"{_BEGUN}\n".encode()
        # Search only the newly received part, because a host may send byte by byte.
        self.has_begun = mark in self.errors[-len(chunk) - len(mark) :]
        return self.has_begun

    @property
    def text(self) -> str:
        """Return standard output."""
        return self.output.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """Return standard error without the line that says that the script begins."""
        return self.errors.decode(errors="replace").replace(f"{_BEGUN}\n", "", 1)


async def run(
    connection: asyncssh.SSHClientConnection,
    command: str,
    script: str,
    channel: Channel[[], T],
    limit: float | None = None,
) -> Answer[T]:
    """Run a script and return its status and output; stop reading if a host prints too much.

    A host can restrict an SSH key to the inspection's script (`gpu-cluster probe-key`). A login
    with this key runs the host's copy of that script and ignores the argument `script`.

    Args:
        connection: Connection to the host.
        command: Command that runs the script from standard input.
        script: Text of the script. Empty: the command is what runs.
        channel: Parser of standard output.
        limit: Seconds for the script from its beginning. None: no limit. Until the beginning the
            time limit of the login holds.

    Raises:
        LoginFailed: The host did not begin the script, because its shell or sudo refused or was
            slow; or the script did not end in time, the connection ended, or the host printed more
            bytes than the channel allows.
    """
    login: Login = connection.get_extra_info(_LOGIN)
    output = _Output()
    loop = asyncio.get_running_loop()

    async def read_output(stream: asyncssh.SSHReader[bytes]) -> None:
        while chunk := await stream.read(65536):
            output.output += chunk
            require_at_most(channel.limit, output.output)

    async def read_errors(stream: asyncssh.SSHReader[bytes]) -> None:
        while chunk := await stream.read(65536):
            if output.add_errors(chunk):
                deadline.reschedule(None if limit is None else loop.time() + limit)
            require_at_most(ANSWER, output.errors)

    def require_at_most(most: int, received: bytearray) -> None:
        if len(received) > most:
            raise Unreadable(f"the host answered more than {most} bytes")

    text = f"echo '{_BEGUN}' >&2\n{script}" if script else ""
    try:
        async with asyncio.timeout(login.seconds if script else limit) as deadline:
            process = await connection.create_process(command, encoding=None)
            with contextlib.suppress(BrokenPipeError, ConnectionError):
                process.stdin.write(text.encode())
                process.stdin.write_eof()
            await asyncio.gather(read_output(process.stdout), read_errors(process.stderr))
            await process.wait_closed()
    except asyncssh.ChannelOpenError as error:
        raise LoginFailed(explain_refused_session(login, error)) from error
    except (OSError, asyncssh.Error, TimeoutError, Unreadable) as error:
        late = isinstance(error, TimeoutError)
        if output.has_begun or not late:
            reason = f"no end within {limit:.0f} s" if late and limit else text_of(error)
            failure = explain_script(login, reason, output.error_text)
        else:
            failure = explain_session(login, None, output.error_text, output.text, is_late=True)
        raise LoginFailed(failure) from error
    if process.exit_status is None and output.has_begun:
        reason = "the connection ended before the script"
        raise LoginFailed(explain_script(login, reason, output.error_text))
    result = Answer(process.exit_status, last_lines(output.error_text), output.text, channel)
    if script and not output.has_begun and not _is_readable(result):
        failure = explain_session(login, result.status, output.error_text, output.text)
        raise LoginFailed(failure)
    return result


def _is_readable(result: Answer[Any]) -> bool:
    """Return whether the output is an echo of the script, which did not run."""
    try:
        return result.status == 0 and result.read() is not None and bool(result._text)
    except ValueError:
        return False
