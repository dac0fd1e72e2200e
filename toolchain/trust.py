"""Whether what lies in the cache is still what was made, and nobody else may write there.

Each entry's record holds the SHA-256 of its files, from when they were made. They are compared
at each use; where the kernel says that a file hasn't changed since it was compared last, that
stands: its time of change (ctime) can't be set by a program. Who has the rights of the cache's
owner can write anything, records too: runs that must not trust each other have a cache each.
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

from .tool import ToolchainError

RECORD = "tool.json"
_COMPARED = "compared.json"
"""In the store's folder: by file, how it looked when it was last compared."""


def digests(entry: Path) -> dict[str, str]:
    """SHA-256 of each file of an entry, by name."""
    files = sorted(file for file in entry.iterdir() if file.name != RECORD)
    with ThreadPoolExecutor(4) as pool:
        return dict(zip([file.name for file in files], pool.map(_digest, files), strict=True))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check(entry: Path, recorded: Mapping[str, str], root: Path) -> None:
    """Refuses an entry that others may write to, or whose files aren't those that were made.

    Args:
        entry: its folder.
        recorded: SHA-256 by file.
        root: the cache's ``tools`` folder.

    Raises:
        ToolchainError: with what was found.
    """
    files = sorted(file for file in entry.iterdir() if file.name != RECORD)
    # The cache's folder may be a link, whose mode says nothing: what it leads to counts.
    for place in (root.resolve(), entry.parent.resolve(), entry, *files):
        check_owner(place)
    compared = _read(root / _COMPARED)
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
    _write(root / _COMPARED, {**compared, **stamps})


def check_owner(place: Path) -> None:
    """Refuses a file or folder that isn't ours or root's, or that others may write.

    Raises:
        ToolchainError: with its owner and mode.
    """
    status = place.lstat()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid not in (os.geteuid(), 0) or others or stat.S_ISLNK(status.st_mode):
        raise ToolchainError(
            f"{place}: found owner {status.st_uid} and mode {stat.filemode(status.st_mode)}; "
            "wanted: a file or folder of yours or root's that nobody else may write; cure: find "
            "out who made it, then remove it"
        )


def make_folder(path: Path) -> None:
    """Makes a folder that others may read only, whatever the umask."""
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{status.st_dev} {status.st_ino} {status.st_size} {status.st_ctime_ns}"


def _read(path: Path) -> dict[str, str]:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _write(path: Path, stamps: Mapping[str, str]) -> None:
    """Keeps stamps where it can: in a cache of root's a user compares anew each time."""
    try:
        descriptor, draft = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(stamps, file)
        Path(draft).replace(path)
    except OSError:
        return
