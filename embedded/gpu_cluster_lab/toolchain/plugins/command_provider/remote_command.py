"""Run a command on a remote host over SSH."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import asyncssh
from asyncssh.channel import SSHClientChannel

from .output import CommandError, Output

GRACE = 3
"""Seconds between SIGTERM and SIGKILL when a command is cancelled."""

_READ = 65536
_WINDOW = 2 * 1024 * 1024
_PACKET = 32768


_SWEEP = """
each() {
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } 2>/dev/null || continue
    pid=${line%% *}
    set -- ${line##*) }  # state, parent, group, session
    visit "$2" "$4"
  done
}
visit() { [ "$1" = "$PPID" ] && [ "$pid" != "$$" ] && leaders="$leaders$pid "; }
leaders=" "
each
end() { kill -SIGNAL "$1" || sudo -n kill -SIGNAL "$1"; } 2>/dev/null
visit() { case "$leaders" in *" $2 "*) end "$pid" ;; esac; }
each
[ "$leaders" != " " ]
"""
"""Shell script that sends a signal to all processes of an SSH connection's other sessions.

The sessions of an SSH connection are children of the same sshd process, and each runs in its own
process session (setsid). The script therefore finds all processes of these sessions and no others.
A process that was started with `sudo` belongs to root, so `sudo` is also needed to signal it.
"""


class VariableRefused(CommandError):
    """Error: the SSH server does not accept an environment variable."""

    def __init__(self, host: str, name: str) -> None:
        """Create the error for a host and the name of the variable."""
        super().__init__(
            f"{host}: the SSH server refuses the environment variable {name!r}. Allow it with "
            f"`AcceptEnv {name}` in sshd_config, or put `{name}=… ` before the command."
        )


class _Channel(SSHClientChannel):  # type: ignore[type-arg]
    """SSH channel that starts the command only after the server has accepted all variables.

    AsyncSSH sends `env` requests without requesting a reply, so a refusal would go unnoticed (RFC
    4254, section 6.4).
    """

    def __init__(self, *args: Any, host: str, required: frozenset[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._host = host
        self._required = required
        self._asked: list[tuple[str, asyncio.Future[Any]]] = []
        self.refused: list[str] = []

    def _send_request(self, request: bytes, *args: bytes, want_reply: bool = False) -> None:
        if request == b"env":
            waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._request_waiters.append(waiter)
            # The first argument of SSH's `env` request is a string: 4 bytes with its length, then
            # the name of the variable.
            self._asked.append((args[0][4:].decode(), waiter))
            want_reply = True
        super()._send_request(request, *args, want_reply=want_reply)

    async def _make_request(self, request: bytes, *args: bytes) -> bool | None:
        asked, self._asked = self._asked, []
        for name, waiter in asked:
            if not await waiter:
                self.refused.append(name)
        for name in self.refused:
            if name in self._required:
                raise VariableRefused(self._host, name)
        return await super()._make_request(request, *args)


async def _start_session(
    connection: asyncssh.SSHClientConnection,
    host: str,
    command: str,
    environment: Mapping[str, str],
    previous: Mapping[str, str],
) -> tuple[asyncssh.SSHClientProcess[bytes], list[str]]:
    if not environment and not previous:
        return await connection.create_process(command, encoding=None), []
    channel = _Channel(
        connection,
        asyncio.get_running_loop(),
        "strict",
        None,
        "strict",
        _WINDOW,
        _PACKET,
        host=host,
        required=frozenset(environment),
    )
    variables = {
        name.encode(): value.encode() for name, value in {**environment, **previous}.items()
    }
    process: Any = await channel.create(
        asyncssh.SSHClientProcess,
        command,
        None,
        variables,
        False,
        None,
        None,
        {},
        False,
        None,
        None,
        False,
        False,
    )
    return process, channel.refused


async def run(
    connection: asyncssh.SSHClientConnection,
    host: str,
    command: str,
    output: Output,
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    previous: Mapping[str, str] | None = None,
) -> tuple[str, list[str]]:
    """Run a command on a host and pass its output to `output`.

    Args:
        connection: The SSH connection.
        host: Name of the host for messages.
        output: Receives standard output and standard error.
        stdin: Text for standard input.
        environment: Variables that the server must accept.
        previous: Variables that the server may refuse.

    Returns:
        The reason why the command failed (`exit status 3`, `signal KILL`, …), empty for exit status
            0; and the names in `previous` that the server refused.

    Raises:
        CommandError: The session can't be opened or a variable is refused; nothing was run.
    """
    try:
        process, refused = await _start_session(
            connection, host, command, environment or {}, previous or {}
        )
    except (asyncssh.Error, OSError) as error:
        raise CommandError(f"{host}: no session: {error}") from None
    try:
        await asyncio.gather(
            _feed_session(process, stdin),
            _drain_channel(process.stdout, "stdout", output),
            _drain_channel(process.stderr, "stderr", output),
        )
        await process.wait_closed()
    except (asyncssh.Error, OSError) as error:
        return f"connection lost ({error or type(error).__name__})", refused
    except asyncio.CancelledError:
        await asyncio.shield(_end_session(connection, process))
        raise
    if process.exit_signal:
        return f"signal {process.exit_signal[0]}", refused
    if process.exit_status is None:
        return "connection lost before the exit status came", refused
    return (f"exit status {process.exit_status}" if process.exit_status else ""), refused


async def _feed_session(process: asyncssh.SSHClientProcess[bytes], text: str) -> None:
    """Write a text to the command's standard input.

    It is no error if the command stops reading before the end.
    """
    with suppress(BrokenPipeError, ConnectionError, asyncssh.Error):
        if text:
            process.stdin.write(text.encode())
            await process.stdin.drain()
        process.stdin.write_eof()


async def _drain_channel(reader: asyncssh.SSHReader[bytes], stream: str, output: Output) -> None:
    while data := await reader.read(_READ):
        output.feed(stream, data)


async def _end_session(
    connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]
) -> None:
    """End all processes of the remote session by SIGTERM, and by SIGKILL after `GRACE` seconds."""
    for name in ("TERM", "KILL"):
        with suppress(OSError, asyncssh.Error, TimeoutError):
            if not await asyncio.wait_for(_sweep(connection, name), GRACE):
                process.send_signal(name)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait_closed(), GRACE)
            return
    process.close()


async def _sweep(connection: asyncssh.SSHClientConnection, name: str) -> bool:
    """Send a signal to the other sessions of the SSH connection; return True if there were any.

    The signal is sent by a script in another session. OpenSSH does not support the `signal` request
    of RFC 4254, section 6.9, for a login as root (session.c: it needs privilege separation), and
    closing a channel doesn't end the processes.
    """
    done = await connection.run(
        "exec sh", input=_SWEEP.replace("SIGNAL", name), check=False, timeout=GRACE
    )
    return done.exit_status == 0
