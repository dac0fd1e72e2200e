"""Upload of script files to a folder on a host that only root can write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import asyncssh

from gpu_cluster.ssh.answers import NOTHING
from gpu_cluster.ssh.client import Target, reached, run, shell
from gpu_cluster.ssh.login import LoginFailed
from gpu_rules.faults import Fault

FIRST_DELAY, DELAY_FACTOR, LONGEST_DELAY = 0.1, 1.5, 5.0
"""Shortest pause, factor and longest pause between two connection attempts.

The pauses, in seconds, equal pulumi-command's (pulumi sdk/go/common/util/retry).
"""

STEPS = "/var/lib/gpu-cluster/steps"
"""Folder of the files on a host, from which a script reads them, also for its undo."""
TAKE = Path(__file__).with_suffix(".sh")
"""File with the shell function `take_files`, which receives the files on the host."""


@dataclass(frozen=True)
class UploadLimits:
    """Limits of an upload.

    Attributes:
        dials: Maximum number of connection attempts.
        copying: Maximum number of seconds for copying the files.
    """

    dials: int
    copying: float


async def upload(
    host: Target,
    private_key: str,
    files: Mapping[str, str],
    limits: UploadLimits,
    gate: asyncio.Semaphore,
) -> Fault | None:
    """Copy script files to a host; return an explanation if that fails, else None.

    Args:
        private_key: SSH private key.
        files: Texts of the files, by name.
        gate: Limits the parallel uploads. A pause between two attempts is outside the gate, so that
            unreachable hosts don't block others.
    """
    delay = FIRST_DELAY
    for dials in range(1, limits.dials + 1):
        try:
            async with gate:
                return await _dial(host, private_key, files, limits)
        except LoginFailed as error:
            why = error.failure
            if dials == limits.dials or (why.is_refused and not why.is_transient):
                return why.fault(f"host {host.name}", dials)
        await asyncio.sleep(delay)
        delay = min(delay * DELAY_FACTOR, LONGEST_DELAY)
    return None


async def _dial(
    host: Target, private_key: str, files: Mapping[str, str], limits: UploadLimits
) -> Fault | None:
    async with reached(host, private_key, pauses=()) as connection:
        return await _send(connection, host, files, limits)


async def _send(
    connection: asyncssh.SSHClientConnection,
    host: Target,
    files: Mapping[str, str],
    limits: UploadLimits,
) -> Fault | None:
    """Copy the files over a connection; return an explanation if the host fails, else None.

    One command copies all files, because SFTP needs several round trips for each file.

    Raises:
        LoginFailed: The connection ended, the copying took too long, or the host printed too much.
    """
    command = shell(host, limits.copying)
    answer = await run(connection, command, taking(files), NOTHING, limits.copying)
    if answer.status == 0:
        return None
    found = f"{STEPS} can't be written: {' / '.join(answer.errors) or f'status {answer.status}'}"
    return Fault(
        f"host {host.name}",
        found,
        "a folder for this program's scripts",
        "correct what the message names",
    )


def taking(files: Mapping[str, str]) -> str:
    """Return a script that creates files from texts, each text after a line with the file's name.

    The texts must not contain such a line or the line that ends the files.
    """
    texts = "".join(f"=== {name}\n{text}" for name, text in files.items())
    return f"{TAKE.read_text()}take_files <<'=== files'\n{texts}=== end\n=== files\n"
