"""Checks that cached tools are unchanged and that no other user may write to the cache.

The record of each cache entry contains the SHA-256 sums of its files, from when they were made. At
each use, the sums of the current files are compared with them. The comparison is skipped for files
that have not changed since the last one: this is known from their change time (ctime), which
programs can't set. A process with the rights of the cache's owner can change everything, records
too. So runs that must not trust each other need separate caches.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpu_cluster.machine.tool import ToolchainError

RECORD = "tool.json"
_COMPARED = "compared.json"
"""File in the ``tools`` folder with the state of each file when it was last compared."""


def digests(entry: Path) -> dict[str, str]:
    """Return the SHA-256 sum of each file in a cache entry, by file name."""
    files = sorted(file for file in entry.iterdir() if file.name != RECORD)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip([file.name for file in files], pool.map(_digest, files), strict=True))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check(entry: Path, recorded: Mapping[str, str], root: Path) -> None:
    """Check a cache entry; raise an error if it was changed or if other users may write to it.

    Args:
        entry: Folder of the entry.
        recorded: The recorded SHA-256 sums by file name.
        root: The cache's ``tools`` folder.

    Raises:
        ToolchainError: A check failed; the message gives the details.
    """
    files = sorted(file for file in entry.iterdir() if file.name != RECORD)
    # The cache's folder may be a symbolic link. The mode of a link is meaningless, so the link's
    # target is checked.
    for place in (root.resolve(), entry.parent.resolve(), entry, *files):
        check_owner(place)
    compared = _read_stamps(root / _COMPARED)
    stamps = {str(file): _stamp(file) for file in files}
    if all(compared.get(place) == stamp for place, stamp in stamps.items()):
        return
    sums = digests(entry)
    if sums != recorded:
        changed = sorted({name for name, _ in sums.items() ^ recorded.items()})
        raise ToolchainError(
            f"{entry}: found other files than were made ({', '.join(changed)}: SHA-256 differs); "
            f"wanted: what {RECORD} says; cure: find out who changed it, then remove that folder"
        )
    _write_stamps(root / _COMPARED, {**compared, **stamps})


def check_owner(place: Path) -> None:
    """Raise an error unless this user or root owns a file and no other user may write to it.

    Raises:
        ToolchainError: The check failed; the message contains the owner and the mode.
    """
    status = place.lstat()
    writable_by_others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid not in (os.geteuid(), 0) or writable_by_others or stat.S_ISLNK(status.st_mode):
        raise ToolchainError(
            f"{place}: found owner {status.st_uid} and mode {stat.filemode(status.st_mode)}; "
            "wanted: owned by you or by root, and writable by nobody else; cure: find out who made "
            "it, then remove it"
        )


def make_folder(path: Path) -> None:
    """Create a folder that other users can only read, whatever the umask is."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


def _read_stamps(path: Path) -> dict[str, str]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write_stamps(path: Path, stamps: Mapping[str, str]) -> None:
    """Record which files of the cache were compared with their checksums; ignore errors.

    If the record can't be written (for example, a user can't write to root's cache), each run
    compares the files again.
    """
    try:
        descriptor, draft = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(stamps, file)
        Path(draft).replace(path)
    except OSError:
        return
