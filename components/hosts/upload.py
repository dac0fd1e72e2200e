"""The files that a host's declarations name, copied into the home of the user who logs in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import asyncssh

from components.hosts.reach import Host, reached, run
from components.hosts.script import UPLOADED, Bundle
from config.printable import printable
from config.problem import Fault

FIRST_DELAY, DELAY_FACTOR, LONGEST_DELAY = 0.1, 1.5, 5.0
"""Seconds between two dials, as pulumi-command waits (pulumi sdk/go/common/util/retry)."""

MARK = "=== "
COMMAND = (
    f"umask 077 && rm -rf {UPLOADED} && mkdir {UPLOADED} && cd {UPLOADED} && "
    f"awk '/^{MARK}[a-z0-9_]+-[0-9a-f]+[.]sh$/ {{ file = $2; next }} {{ print > file }}'"
)
"""Takes what `sent` makes from standard input, by one process for all files."""
FINAL = (asyncssh.PermissionDenied, asyncssh.HostKeyNotVerifiable, ValueError)
"""What the next dial would meet again."""


@dataclass(frozen=True)
class Limits:
    """Attributes: dials in all, seconds for one, seconds for the copying."""

    dials: int
    dial: float
    copying: float


async def upload(
    host: Host, private_key: str, bundles: Sequence[Bundle], limits: Limits
) -> Fault | None:
    """Replaces what an earlier run copied; what went wrong, or None.

    One connection and one command, whatever the number of files: a copy by SFTP takes some round
    trips for each.
    """
    delay = FIRST_DELAY
    for dials in range(1, limits.dials + 1):
        try:
            return await _send(host, private_key, bundles, limits)
        except (OSError, asyncssh.Error, TimeoutError, ValueError) as error:
            if dials == limits.dials or isinstance(error, FINAL):
                reason = printable(str(error) or type(error).__name__)
                attempts = f"{dials} attempt{'s' if dials > 1 else ''}"
                found = f"no connection as {host.user} after {attempts} ({reason})"
                return Fault(f"host {host.name}", found, "one", "see that ssh works from here")
        await asyncio.sleep(delay)
        delay = min(delay * DELAY_FACTOR, LONGEST_DELAY)
    return None


async def _send(
    host: Host, private_key: str, bundles: Sequence[Bundle], limits: Limits
) -> Fault | None:
    async with contextlib.AsyncExitStack() as stack:
        async with asyncio.timeout(limits.dial):
            connection = await stack.enter_async_context(reached(host, private_key))
        async with asyncio.timeout(limits.copying):
            status, _, errors = await run(connection, COMMAND, sent(bundles))
    if status == 0:
        return None
    found = f"{UPLOADED} can't be written: {printable(errors.strip() or f'status {status}')}"
    return Fault(f"host {host.name}", found, "the steps' files", "see what it names")


def sent(bundles: Sequence[Bundle]) -> str:
    """The bundles' texts, each after a line with its file's name, which no text can hold."""
    return "".join(f"{MARK}{bundle.file}\n{bundle.text}" for bundle in bundles)
