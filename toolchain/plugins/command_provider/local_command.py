"""Runs one command on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .output import CommandError, Output

GRACE = 5
"""Seconds between SIGTERM and SIGKILL when a command is cancelled."""

INTERPRETER = ("/bin/sh", "-c")

_READ = 65536


async def run(
    command: str,
    output: Output,
    *,
    interpreter: Sequence[str] | None = None,
    directory: str | None = None,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs `command` under `interpreter`, by default `/bin/sh -c`, and feeds what it prints.

    The command has a process group of its own, which ends as a whole when the run is cancelled.

    Args:
        directory: default the plugin's working directory, which is the engine's.
        environment: added to the plugin's own.

    Returns:
        "" for exit status 0, else what ended the command.

    Raises:
        CommandError: the command cannot be started.
    """
    words = [*(interpreter or INTERPRETER), command]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=directory or None,
            env={**os.environ, **(environment or {})},
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot start {words[0]!r} in {directory or os.getcwd()}: {error}"
        ) from None
    try:
        await asyncio.gather(
            _feed(process, stdin),
            _drain(process.stdout, "stdout", output),
            _drain(process.stderr, "stderr", output),
        )
        status = await process.wait()
    except asyncio.CancelledError:
        await asyncio.shield(_end(process))
        raise
    if status < 0:
        return f"signal {signal.Signals(-status).name.removeprefix('SIG')}"
    return f"exit status {status}" if status else ""


async def _feed(process: asyncio.subprocess.Process, text: str) -> None:
    """Writes standard input to its end; a command that stops reading is no error."""
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionError):
        process.stdin.write(text.encode())
        await process.stdin.drain()
    process.stdin.close()


async def _drain(reader: asyncio.StreamReader | None, stream: str, output: Output) -> None:
    while reader is not None and (data := await reader.read(_READ)):
        output.feed(stream, data)


async def _end(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
