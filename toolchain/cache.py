"""The cache on disk: entries that are whole or absent, one writer at a time.

Below ``cache_dir()/tools``::

    store/<name>-<version>-<key>/   one tool: its executables and tool.json
    <key of all pins>/bin/          all tools of one set of pins: one folder for PATH
    staging/                        what a run is making; used by nobody, emptied by the next run
    lock                            held while something is made
    path.json                       versions of executables found on PATH

An entry is made in ``staging``, synced to disk and renamed into ``store``, so a kill at any point
leaves either the whole entry or none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import trust
from .tool import Tool, ToolchainError

#: Seconds that a run waits for another one that is building: three cold builds on two cores.
LOCK_LIMIT = 2700.0
_LOCK_POLL = 0.2


def cache_dir() -> Path:
    """``$GPU_CLUSTER_CACHE``, else ``~/.cache/gpu-cluster``; absolute, not made here."""
    chosen = os.environ.get("GPU_CLUSTER_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path.home() / ".cache" / "gpu-cluster"


def write_atomically(path: Path, text: str) -> None:
    """Replace ``path`` by ``text``: readers see the old or the new text, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def digest(parts: Mapping[str, str | bytes]) -> str:
    """A short key over named parts; names and lengths count, so no two inputs run together."""
    total = hashlib.sha256()
    for name, value in sorted(parts.items()):
        content = value.encode() if isinstance(value, str) else value
        total.update(f"{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


@dataclass(frozen=True)
class Store:
    """The entries under one ``tools`` folder."""

    root: Path

    def entry(self, name: str, version: str, key: str) -> Path:
        """Where the entry of a tool lies or would lie."""
        return self.root / "store" / f"{name}-{version}-{key}"

    def read(self, entry: Path) -> Tool | None:
        """The tool of an entry; ``None`` where there is no whole entry, with the sums of its files.

        Raises:
            ToolchainError: it isn't what was made, or others may write to it (`trust.check`).
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
        """A new empty folder for a run that holds the lock."""
        parent = self.root / "staging"
        trust.make_folder(parent)
        folder = Path(tempfile.mkdtemp(dir=parent))
        folder.chmod(0o755)  # it becomes an entry, which other users of the cache may read
        return folder

    def publish(self, staged: Path, tool: Tool, entry: Path) -> Tool:
        """Make ``staged`` (holding the executable ``tool.name``) the entry; returns what it is."""
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
        if entry.exists():  # broken, or it would have been used
            shutil.rmtree(entry)
        staged.rename(entry)
        _sync(entry.parent)
        return Tool(tool.name, tool.version, tool.origin, entry / tool.name)

    @contextlib.contextmanager
    def lock(self, waiting: Callable[[str], None], limit: float = LOCK_LIMIT) -> Iterator[None]:
        """Hold the store for writing; ``waiting`` is called once, with the run that holds it.

        The kernel drops the lock with the process that held it, however it ended. Raises
        :class:`ToolchainError` after ``limit`` seconds.
        """
        trust.make_folder(self.root)
        with (self.root / "lock").open("a+", encoding="utf-8") as file:
            _acquire(file.fileno(), self.root / "lock", waiting, limit)
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            shutil.rmtree(self.root / "staging", ignore_errors=True)
            try:
                yield
            finally:
                shutil.rmtree(self.root / "staging", ignore_errors=True)


def _acquire(descriptor: int, path: Path, waiting: Callable[[str], None], limit: float) -> None:
    end = time.monotonic() + limit
    told = False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = path.read_text(encoding="utf-8").strip() or "unknown"
        if not told:
            waiting(f"waiting for process {holder}, which is making the same tools")
            told = True
        if time.monotonic() > end:
            raise ToolchainError(
                f"{path}: process {holder} has held the lock for {limit:.0f} s; "
                "wanted: the lock; cure: let it finish, or end it, and run again"
            )
        time.sleep(_LOCK_POLL)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def link(source: Path, target: Path) -> None:
    """Make ``target`` the same file as ``source``: a hard link, since Pulumi's engine looks for
    its language host beside its own binary with symbolic links resolved."""
    with contextlib.suppress(FileNotFoundError):
        if target.samefile(source) and not target.is_symlink():
            return
    trust.make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:  # file systems without hard links
        shutil.copy2(source, temporary)
    temporary.replace(target)


def point(target: Path, source: Path) -> None:
    """Make ``target`` a symbolic link to ``source``, a tool outside the cache."""
    if target.is_symlink() and target.readlink() == source:
        return
    trust.make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(source)
    temporary.replace(target)
