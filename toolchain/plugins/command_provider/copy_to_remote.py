"""Copies a file, a folder or a text to a remote host by SFTP.

Where things land, and that modes and owners are not carried over, is as in pulumi-command 1.2.1
(provider/pkg/provider/remote/copyController.go).
"""

from __future__ import annotations

import asyncio
import posixpath
from pathlib import Path

import asyncssh

from .output import CommandError

_AT_ONCE = 32
"""Files of one folder that are written together: OpenSSH's server allows some hundred handles."""


async def copy_text(connection: asyncssh.SSHClientConnection, text: str, target: str) -> None:
    """Writes `text` to the file `target`; missing parent folders are made.

    Raises:
        CommandError: `target` is a folder, or the server refuses.
    """
    try:
        async with connection.start_sftp_client() as sftp:
            if await sftp.isdir(target):
                raise CommandError(
                    f"{target} is a folder on the host; a text needs the path of a file"
                )
            await _make_parents(sftp, target)
            async with sftp.open(target, "wb") as file:
                await file.write(text.encode())
    except (asyncssh.Error, OSError) as error:
        raise CommandError(f"copy to {target}: {error}") from None


async def copy_path(connection: asyncssh.SSHClientConnection, source: str, target: str) -> None:
    """Copies the local file or folder `source`.

    | source | target is a folder | target is absent | target is a file |
    | --- | --- | --- | --- |
    | `folder` | `target/folder` | `target/folder` | error |
    | `folder/` | its content into `target` | its content into `target` | error |
    | `file` | `target/file` | `target` | overwritten |

    Raises:
        CommandError: the source cannot be read, the target does not fit, or the server refuses.
    """
    local = Path(source)
    try:
        async with connection.start_sftp_client() as sftp:
            if local.is_dir():
                into = target if source.endswith("/") else posixpath.join(target, local.name)
                await _copy_folder(sftp, local, into)
                return
            if await sftp.isdir(target):
                target = posixpath.join(target, local.name)
            else:
                await _make_parents(sftp, target)
            await _copy_file(sftp, local, target)
    except (asyncssh.Error, OSError) as error:
        raise CommandError(f"copy of {source} to {target}: {error}") from None


async def _make_parents(sftp: asyncssh.SFTPClient, target: str) -> None:
    parent = posixpath.dirname(target)
    if parent:
        await sftp.makedirs(parent, exist_ok=True)


async def _copy_folder(sftp: asyncssh.SFTPClient, source: Path, target: str) -> None:
    """All files at once: one after the other, each would cost some round trips."""
    for taken in (target, posixpath.dirname(target)):
        if await sftp.isfile(taken):
            raise CommandError(f"{taken} is a file on the host; wanted a folder")
    await sftp.makedirs(target, exist_ok=True)
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(item: Path) -> None:
        below = posixpath.join(target, item.name)
        if item.is_dir() and not item.is_symlink():
            await _copy_folder(sftp, item, below)
            return
        async with gate:
            await _copy_file(sftp, item, below)

    await asyncio.gather(*map(one, sorted(source.iterdir())))


async def _copy_file(sftp: asyncssh.SFTPClient, source: Path, target: str) -> None:
    with source.open("rb") as local:
        async with sftp.open(target, "wb") as remote:
            while data := local.read(1 << 20):
                await remote.write(data)
