"""File lock between processes, which the kernel releases when the process that holds it ends."""

from __future__ import annotations

import fcntl
import os
import pwd
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL = 0.05
"""Seconds between two attempts."""
_LONGEST = 200
"""Maximum number of characters of a holder's name."""


class LockHeld(Exception):
    """Error: another process did not release the lock in time.

    The message names that process (`_describe_holder`).
    """


@contextmanager
def locked(
    path: Path,
    limit: float,
    *,
    command: str = "",
    waiting: Callable[[str], None] = lambda holder: None,
) -> Iterator[int]:
    """Hold an exclusive `flock` on a file, which is never deleted.

    Only the file's owner may open the file, because whoever can read it could hold the lock.

    Args:
        path: Path of the lock file.
        limit: Seconds to wait for another process to release the lock.
        command: Name of this run, which other processes print while they wait.
        waiting: Called once, with the name of the other process, if the lock is not free.

    Yields:
        The file descriptor of the lock; a child process that inherits it holds the lock until it
            closes the descriptor.

    Raises:
        LockHeld: Another process held the lock for longer than `limit`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_mode & 0o077:
            os.fchmod(descriptor, 0o600)
        deadline, told = time.monotonic() + limit, False
        while not _is_taken(descriptor):
            if not told or time.monotonic() > deadline:
                holder = _describe_holder(descriptor)
            if not told:
                waiting(holder)
                told = True
            if time.monotonic() > deadline:
                raise LockHeld(holder)
            time.sleep(_POLL)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {command}\n".encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def _is_taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _describe_holder(descriptor: int) -> str:
    """Return the name of the process that holds a lock.

    The kernel's table says which process that is. The line in the file may be of a process that has
    ended. So the command in this line is used only if the line has the number of the process that
    holds the lock, or if the kernel has no such table, as on macOS.
    """
    line = os.pread(descriptor, _LONGEST, 0).decode(errors="replace").strip()
    written, _, command = line.partition(" ")
    number = _find_holder(descriptor) or (written if written.isdecimal() else "unknown")
    if number == written:
        holder = f"{command} (process {number})" if command else f"process {number}"
    else:
        holder = f"process {number}{_describe_process(number)}"
    return "".join(sign if sign.isprintable() else "?" for sign in holder)


def _describe_process(number: str) -> str:
    """Return program and user of a process, or "" if it has ended."""
    process = Path("/proc", number)
    try:
        user = process.stat().st_uid
        program = (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return ""
    return f" ({program}) of user {_name_user(user)}"


def _find_holder(descriptor: int) -> str | None:
    """Return the number of the process that holds a `flock`, by the kernel's table.

    A line is `1: FLOCK  ADVISORY  WRITE 20 08:02:131 0 EOF`: process, device and inode; a line of a
    process that waits has `->` after its number (proc_locks(5)). The number is 0 or less for a
    process of another pid namespace.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for _, kind, _, _, number, place, *_ in (fields for fields in map(str.split, lines)):
        if kind == "FLOCK" and place == device and number.isdecimal() and number != "0":
            return number
    return None


def _name_user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
