"""Public host keys of machines, read from `known_hosts` files or scanned from the machines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import asyncssh
from pydantic_core import PydanticCustomError

from gpu_cluster.base.host_key import check_host_key
from gpu_cluster.ssh.client import MODERN
from gpu_cluster.ssh.keys import fingerprint

Place = tuple[str, int]
"""Address and port of an SSH server."""
SCAN_LIMIT = 10.0
"""Seconds for one machine to present its key."""
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


class NoHostKeyError(Exception):
    """A machine presented no host key that a stack file takes; the message is the reason."""


async def scanned(places: Collection[Place]) -> dict[Place, str]:
    """Scan host keys without a login and return them; skip unreachable machines.

    The scan does not prove that a key belongs to the machine: a person must compare the key's
    fingerprint.
    """
    limit = asyncio.Semaphore(_PARALLEL)

    async def key_of(place: Place) -> str | None:
        async with limit:
            with contextlib.suppress(NoHostKeyError):
                return await presented(place)
        return None

    keys = await asyncio.gather(*map(key_of, places))
    return {place: key for place, key in zip(places, keys, strict=True) if key}


async def presented(place: Place) -> str:
    """Return the key that a machine presents, without a login.

    Raises:
        NoHostKeyError: The machine does not answer, or its key is of another kind.
    """
    address, port = place
    options = asyncssh.SSHClientConnectionOptions(**MODERN, config=None)
    try:
        async with asyncio.timeout(SCAN_LIMIT):
            key = await asyncssh.get_server_host_key(address, port, options=options)
    except TimeoutError:
        raise NoHostKeyError(f"no answer within {SCAN_LIMIT:.0f} s") from None
    except (OSError, ValueError, asyncssh.Error) as error:
        raise NoHostKeyError(str(error) or type(error).__name__) from None
    if text := _best([key] if key else []):
        return text
    raise NoHostKeyError("it presents no key that a stack file takes")


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
