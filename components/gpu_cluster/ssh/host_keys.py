"""Public host keys of machines, read from `known_hosts` files or scanned from the machines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from pydantic_core import PydanticCustomError

from gpu_cluster.base.host_key import check_host_key
from gpu_cluster.ssh.client import PAUSES, scan_key
from gpu_cluster.ssh.keys import fingerprint
from gpu_cluster.ssh.login import Login, LoginFailed, unusable_host_key

Place = tuple[str, int]
"""Address and port of an SSH server."""
SCAN_LIMIT = 10.0
"""Seconds for one machine to present its key, if no stack says how long a login may take."""
_PARALLEL = 64
_ORDER = ("ssh-ed25519", "ecdsa-sha2-", "ssh-rsa")
_SIZE = 16 * 1024 * 1024


def known(files: Iterable[Path], places: Collection[Place]) -> dict[Place, str]:
    """Return the best host key in OpenSSH's `known_hosts` files for each address and port.

    Revoked keys and keys of certificate authorities are ignored. Files that are missing, too
    large or malformed are skipped.
    """
    found: dict[Place, str] = {}
    for file in files:
        for place, key in _known_in(file, places).items():
            found.setdefault(place, key)
    return found


def _known_in(file: Path, places: Collection[Place]) -> dict[Place, str]:
    try:
        if file.stat().st_size > _SIZE:
            return {}
        hosts = asyncssh.read_known_hosts(str(file))
    except (OSError, ValueError, asyncssh.Error):
        return {}
    found: dict[Place, str] = {}
    for address, port in places:
        trusted, _, revoked, *_ = asyncssh.match_known_hosts(
            hosts, address, "", port if port != 22 else None
        )
        if key := _best([key for key in trusted if key not in revoked]):
            found[address, port] = key
    return found


@dataclass(frozen=True)
class _Server:
    """SSH server whose key is scanned; nobody logs in."""

    address: str
    port: int
    user: str = "root"
    host_key: str = ""


async def scanned(places: Collection[Place]) -> dict[Place, str]:
    """Scan host keys without a login and return them; skip unreachable machines.

    The scan does not prove that a key belongs to the machine: a person must compare the key's
    fingerprint.
    """
    limit = asyncio.Semaphore(_PARALLEL)

    async def key_of(place: Place) -> str | None:
        async with limit:
            with contextlib.suppress(LoginFailed):
                return await presented(place)
        return None

    keys = await asyncio.gather(*map(key_of, places))
    return {place: key for place, key in zip(places, keys, strict=True) if key}


async def presented(
    place: Place, seconds: float = SCAN_LIMIT, pauses: Sequence[float] = PAUSES
) -> str:
    """Return the key that a machine presents, without a login.

    Args:
        place: Address and port.
        seconds: Time limit of one try.
        pauses: Seconds between the tries of a scan that another try may heal.

    Raises:
        LoginFailed: The machine does not answer, or its key is of another kind.
    """
    login = Login(_Server(*place), seconds=seconds)
    key = await scan_key(login, pauses)
    if text := _best([key] if key else []):
        return text
    raise LoginFailed(unusable_host_key(login))


def _best(keys: Sequence[asyncssh.SSHKey]) -> str | None:
    """Return the preferred key as text for the stack file: Ed25519 before ECDSA before RSA."""
    for kind in _ORDER:
        for key in keys:
            if key.get_algorithm().startswith(kind) and (text := _text(key)):
                return text
    return None


def _text(key: asyncssh.SSHKey) -> str | None:
    try:
        return check_host_key(key.export_public_key().decode("ascii", "replace"))
    except PydanticCustomError:
        return None


def fingerprint_of(key: str) -> str:
    """Return a key's type and fingerprint, in the form that `ssh-keygen -l` prints."""
    return fingerprint(asyncssh.import_public_key(key))
