"""Runs one command on a remote host."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import asyncssh
from asyncssh.channel import SSHClientChannel

from .output import CommandError, Output

GRACE = 5
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
"""The sessions of one SSH connection are children of one sshd process, and each is a session
(setsid) of its own; so this finds all processes of the sessions beside it, and no others. What a
user started by `sudo` is root's, so it is ended by `sudo` too."""


class VariableRefused(CommandError):
    """The SSH server does not accept an environment variable."""

    def __init__(self, host: str, name: str) -> None:
        super().__init__(
            f"{host}: the SSH server refuses the environment variable {name!r}. Allow it with "
            f"`AcceptEnv {name}` in sshd_config, or put `{name}=… ` before the command."
        )


class _Channel(SSHClientChannel):  # type: ignore[type-arg]
    """Asks for a reply to each `env` request and starts nothing before all are granted.

    AsyncSSH sends `env` without asking, so a refusal would go unseen (RFC 4254, section 6.4).
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
            self._asked.append((args[0][4:].decode(), waiter))  # SSH string: length, then name
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


async def _start(
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
    """Runs `command` and feeds what it prints to `output`.

    Args:
        host: for messages.
        environment: must be accepted by the server.
        previous: variables that the server may refuse.

    Returns:
        "" for exit status 0, else what ended the command (`exit status 3`, `signal KILL`, …); and
        the names in `previous` that were refused.

    Raises:
        CommandError: the session cannot be opened or a variable is refused; nothing ran.
    """
    try:
        process, refused = await _start(
            connection, host, command, environment or {}, previous or {}
        )
    except (asyncssh.Error, OSError) as error:
        raise CommandError(f"{host}: no session: {error}") from None
    try:
        await asyncio.gather(
            _feed(process, stdin),
            _drain(process.stdout, "stdout", output),
            _drain(process.stderr, "stderr", output),
        )
        await process.wait_closed()
    except (asyncssh.Error, OSError) as error:
        return f"connection lost ({error or type(error).__name__})", refused
    except asyncio.CancelledError:
        await asyncio.shield(_end(connection, process))
        raise
    if process.exit_signal:
        return f"signal {process.exit_signal[0]}", refused
    if process.exit_status is None:
        return "connection lost before the exit status came", refused
    return (f"exit status {process.exit_status}" if process.exit_status else ""), refused


async def _feed(process: asyncssh.SSHClientProcess[bytes], text: str) -> None:
    """Writes standard input to its end; a command that stops reading is no error."""
    with suppress(BrokenPipeError, ConnectionError, asyncssh.Error):
        if text:
            process.stdin.write(text.encode())
            await process.stdin.drain()
        process.stdin.write_eof()


async def _drain(reader: asyncssh.SSHReader[bytes], stream: str, output: Output) -> None:
    while data := await reader.read(_READ):
        output.feed(stream, data)


async def _end(
    connection: asyncssh.SSHClientConnection, process: asyncssh.SSHClientProcess[bytes]
) -> None:
    """Ends every process of the remote session: SIGTERM, and SIGKILL after `GRACE` seconds."""
    for name in ("TERM", "KILL"):
        with suppress(OSError, asyncssh.Error, TimeoutError):
            if not await asyncio.wait_for(_sweep(connection, name), GRACE):
                process.send_signal(name)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait_closed(), GRACE)
            return
    process.close()


async def _sweep(connection: asyncssh.SSHClientConnection, name: str) -> bool:
    """Signals the connection's other sessions from one more session; whether there were any.

    OpenSSH does not serve the `signal` request of RFC 4254, section 6.9, when root is logged in
    (session.c: it needs privilege separation), and a closed channel ends nothing by itself.
    """
    done = await connection.run(
        "exec sh", input=_SWEEP.replace("SIGNAL", name), check=False, timeout=GRACE
    )
    return done.exit_status == 0
