"""Tool cache on disk: it has only complete entries, and one process at a time writes to it.

Layout below ``cache_dir()/tools``::

    store/<name>-<version>-<key>/   one tool: its executables and tool.json <key of all pins>/bin/
    all tools of one set of pins: one folder for PATH staging/                        entries in
    progress; the next process empties it lock                            lock file, held while
    tools are made path.json                       versions of executables that were found on PATH

A new entry is written in ``staging``, synced to disk and then renamed into ``store``. So a process
that is killed at any point leaves either a complete entry or none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_cluster.machine.flock import LockHeld, locked
from gpu_cluster.machine.tool import Tool, ToolchainError

from . import trust

# Seconds to wait while another process makes tools: the time of three full builds on two cores.
LOCK_LIMIT = 2700.0


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content atomically: a reader sees either the old or the new text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def digest(contents: Mapping[str, str | bytes]) -> str:
    """Return a key of 16 hexadecimal digits, a hash of named parts.

    Names and lengths are hashed too, so that different parts never give the same input to the hash.
    """
    total = hashlib.sha256()
    for name, value in sorted(contents.items()):
        content = value.encode() if isinstance(value, str) else value
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


@dataclass(frozen=True)
class Store:
    """Store of cached tools: the folder ``tools`` of the cache.

    Attributes:
        root: Path of the ``tools`` folder.
    """

    root: Path

    def entry(self, name: str, version: str, key: str) -> Path:
        """Return the path of a tool's cache entry, even if the entry doesn't exist."""
        return self.root / "store" / f"{name}-{version}-{key}"

    def read(self, entry: Path) -> Tool | None:
        """Return the tool in a cache entry; ``None`` if the entry is missing or incomplete.

        Raises:
            ToolchainError: Files of the entry were changed, or other users may write to it
                (`trust.check`).
        """
        try:
            record = json.loads((entry / "tool.json").read_text(encoding="utf-8"))
            path = entry / record["name"]
            if path.stat().st_size != record["size"]:
                return None
            tool = Tool(record["name"], record["version"], record["origin"], path)
            sums = dict(record["sha256"])
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            return None
        trust.check(entry, sums, self.root)
        return tool

    def stage(self) -> Path:
        """Create an empty folder for a new cache entry, and return it.

        The caller must hold the cache's lock.
        """
        parent = self.root / "staging"
        trust.make_folder(parent)
        folder = Path(tempfile.mkdtemp(dir=parent))
        # Other users may read the cache, so they must be able to read this folder, which becomes a
        # cache entry.
        folder.chmod(0o755)
        return folder

    def publish(self, staged: Path, tool: Tool, entry: Path) -> Tool:
        """Turn a staging folder into a cache entry; return the tool with its path in the cache.

        Args:
            staged: Folder that contains the executable ``tool.name``.
            tool: The tool; its path is not used.
            entry: Path of the entry. An existing entry is replaced.
        """
        executable = staged / tool.name
        for file in staged.iterdir():
            file.chmod(0o755)
        record = {
            "name": tool.name,
            "version": tool.version,
            "origin": tool.origin,
            "size": executable.stat().st_size,
            "sha256": trust.digests(staged),
        }
        (staged / "tool.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        for file in staged.iterdir():
            _sync(file)
        _sync(staged)
        trust.make_folder(entry.parent)
        # The existing entry is broken; a valid entry would have been used, and no new one made.
        if entry.exists():
            shutil.rmtree(entry)
        staged.rename(entry)
        _sync(entry.parent)
        return Tool(tool.name, tool.version, tool.origin, entry / tool.name)

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[str], None], limit: float = LOCK_LIMIT) -> Iterator[None]:
        """Hold the cache's lock for writing while the context lasts.

        The kernel releases the lock when the process that holds it ends, in whatever way.

        Args:
            waiting: Called once with a message if another process holds the lock.
            limit: Seconds to wait for the lock.

        Raises:
            ToolchainError: The lock was not released within ``limit`` seconds.
        """
        trust.make_folder(self.root)
        path = self.root / "lock"

        def tell(holder: str) -> None:
            waiting(f"waiting for {holder}, which is making the same tools")

        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(path, limit, waiting=tell))
            except LockHeld as error:
                raise ToolchainError(
                    f"{path}: {error} has held the lock for {limit:.0f} s; "
                    "wanted: the lock; cure: let it finish, or end it, and run again"
                ) from None
            shutil.rmtree(self.root / "staging", ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(self.root / "staging", ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> None:
    """Make ``target`` a hard link to ``source``.

    A symbolic link would not do: Pulumi's engine resolves symbolic links of its own path and looks
    for its language host in the resulting folder.
    """
    with contextlib.suppress(FileNotFoundError):
        if target.samefile(source) and not target.is_symlink():
            return
    trust.make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # Copy the file if the file system does not support hard links.
        shutil.copy2(source, temporary)
    temporary.replace(target)


def point(target: Path, source: Path) -> None:
    """Make ``target`` a symbolic link to ``source``, a tool outside of the cache."""
    if target.is_symlink() and target.readlink() == source:
        return
    trust.make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(source)
    temporary.replace(target)
