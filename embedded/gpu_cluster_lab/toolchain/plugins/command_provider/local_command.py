"""Run a command on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from .output import CommandError, Output

GRACE = 3
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
    """Run a command and pass its output to `output`.

    The command runs in a new process group, and the whole group is ended if the run is cancelled.

    Args:
        command: The command, passed to the interpreter as its last argument.
        output: Receives standard output and standard error.
        interpreter: Program and arguments in front of the command; by default `/bin/sh -c`.
        directory: Working directory; by default that of the plugin, which is the engine's.
        stdin: Text for standard input.
        environment: Variables in addition to those of the plugin.

    Returns:
        An empty text for exit status 0, else the reason, for example `exit status 3`.

    Raises:
        CommandError: The command can't be started.
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
            _feed_process(process, stdin),
            _drain_stream(process.stdout, "stdout", output),
            _drain_stream(process.stderr, "stderr", output),
        )
        status = await process.wait()
    except asyncio.CancelledError:
        await asyncio.shield(_end_process(process))
        raise
    if status < 0:
        return f"signal {signal.Signals(-status).name.removeprefix('SIG')}"
    return f"exit status {status}" if status else ""


async def _feed_process(process: asyncio.subprocess.Process, text: str) -> None:
    """Write a text to the command's standard input.

    It is no error if the command stops reading before the end.
    """
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionError):
        process.stdin.write(text.encode())
        await process.stdin.drain()
    process.stdin.close()


async def _drain_stream(reader: asyncio.StreamReader | None, stream: str, output: Output) -> None:
    while reader is not None and (data := await reader.read(_READ)):
        output.feed(stream, data)


async def _end_process(process: asyncio.subprocess.Process) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
            break
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
