"""The files that a host's declarations name, copied to where root alone can write."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from components.ssh.answers import NOTHING
from components.ssh.client import Target, reached, run, shell
from components.ssh.unreached import unreached
from policies.faults import Fault
from policies.printable import printable

FIRST_DELAY, DELAY_FACTOR, LONGEST_DELAY = 0.1, 1.5, 5.0
"""Seconds between two dials, as pulumi-command waits (pulumi sdk/go/common/util/retry)."""

STEPS = "/var/lib/gpu-cluster/steps"
"""Where they land: a declaration reads them there, for its undo too."""
TAKE = Path(__file__).with_suffix(".sh")
"""The function ``take_files``, which takes them."""
FINAL = (asyncssh.PermissionDenied, asyncssh.HostKeyNotVerifiable, ValueError)
"""What the next dial would meet again."""


@dataclass(frozen=True)
class UploadLimits:
    """Attributes: dials in all, seconds for one, seconds for the copying."""

    dials: int
    dial: float
    copying: float


async def upload(
    host: Target,
    private_key: str,
    files: Mapping[str, str],
    limits: UploadLimits,
    gate: asyncio.Semaphore,
) -> Fault | None:
    """Copy what a host's commands will read; return what went wrong, or None.

    Args:
        host: where to.
        private_key: an SSH private key.
        files: texts by name.
        limits: of it all.
        gate: each dial passes it, and the copying after it. Who waits for the next dial is outside,
            so that hosts that don't answer keep no other ones out.
    """
    delay = FIRST_DELAY
    for dials in range(1, limits.dials + 1):
        try:
            async with gate:
                return await _dial(host, private_key, files, limits)
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            if dials == limits.dials or isinstance(error, FINAL):
                why = unreached(error, host, limits.dial)
                attempts = f"{dials} attempt{'s' if dials > 1 else ''}"
                reason = printable(why.found)
                found = f"no connection as {host.user} after {attempts} ({reason})"
                return Fault(f"host {host.name}", found, why.wanted, printable(why.cure))
        await asyncio.sleep(delay)
        delay = min(delay * DELAY_FACTOR, LONGEST_DELAY)
    return None


async def _dial(
    host: Target, private_key: str, files: Mapping[str, str], limits: UploadLimits
) -> Fault | None:
    async with contextlib.AsyncExitStack() as stack:
        async with asyncio.timeout(limits.dial):
            connection = await stack.enter_async_context(reached(host, private_key))
        return await _send(connection, host, files, limits)


async def _send(
    connection: asyncssh.SSHClientConnection,
    host: Target,
    files: Mapping[str, str],
    limits: UploadLimits,
) -> Fault | None:
    """Copy over a connection; return what went wrong on the host, or None.

    One command, whatever the number of files: a copy by SFTP takes some round trips for each.

    Raises:
        OSError, asyncssh.Error, TimeoutError, ValueError: the connection ended or says nothing, the
            copying took too long, or more than an answer came.
    """
    command = shell(host, limits.copying)
    async with asyncio.timeout(limits.copying):
        answer = await run(connection, command, taking(files), NOTHING, limits.dial)
    if answer.status == 0:
        return None
    if answer.status is None:
        raise ConnectionResetError("the connection ended while it was copied")
    found = f"{STEPS} can't be written: {' / '.join(answer.errors) or f'status {answer.status}'}"
    return Fault(f"host {host.name}", found, "the steps' files", "see what it names")


def taking(files: Mapping[str, str]) -> str:
    """A script that takes files: texts, each after a line with its name.

    No text holds such a line, nor the one that ends them all.
    """
    texts = "".join(f"=== {name}\n{text}" for name, text in files.items())
    return f"{TAKE.read_text()}take_files <<'=== files'\n{texts}=== end\n=== files\n"
