"""Search processes and files for test secrets ("canaries") that must not appear there."""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType

from gpu_cluster.ssh.keys import shortest

INTERVAL = 0.02
"""Seconds between two scans of processes and temporary files; shorter-lived ones are missed."""
LARGEST = 64 << 20
"""Size in bytes of the largest file that is read."""
SHORTEST = 12
"""Number of characters of a secret that are enough to exclude a match by chance."""


def forms(part: bytes) -> Iterator[bytes]:
    """Yield the byte patterns under which a part of a secret may appear: plain, hex and base64.

    In base64 the text depends on the part's offset modulo 3 and on the bytes around the part, so
    all three offsets are encoded and the ends are cut off.
    """
    yield part
    yield part.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + part)
        yield encoded[4 if shift else 0 : len(encoded) // 4 * 4 - 4]


@dataclass(frozen=True)
class Canaries:
    """Named secrets, and a pattern that matches any of them.

    Attributes:
        parts: The byte strings to search for, by the secret's name; each has at least `SHORTEST`
            bytes.
    """

    parts: Mapping[str, tuple[bytes, ...]]
    _names: dict[bytes, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, parts in self.parts.items():
            assert parts, name
            for part in parts:
                assert len(part) >= SHORTEST, name
                self._names.update(dict.fromkeys(forms(part), name))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(map(re.escape, sorted(self._names, key=len, reverse=True))))

    def found(self, content: bytes) -> set[str]:
        """Return the names of the secrets that occur in `content`, never the secrets themselves."""
        return {self._names[match.group()] for match in self.pattern.finditer(content)}


def key_parts(text: str) -> tuple[bytes, ...]:
    """Return the parts of a PEM private key to search for: the second half of its lines.

    The first half of the lines is public. A key in OpenSSH's format is also searched for as PKCS#8,
    because the Pulumi state and plugin use that format. There the Ed25519 secret shares a line with
    a header and begins at the 22nd character (RFC 8410, section 7).
    """
    found = [line for line in _halves(text) if len(line) >= SHORTEST]
    if (other := shortest(text)) != text:
        found += [line[-40:] for line in _halves(other)]
    return tuple(line[:40].encode() for line in found)


def _halves(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line and not line.startswith("-----")]
    return lines[len(lines) // 2 :]


@dataclass
class Watch:
    """Context manager that continuously scans all processes and some folders for secrets.

    Attributes:
        canaries: The secrets to search for.
        folders: Folders with temporary files.
        hits: Descriptions of the places where a secret was found.
        seen: Number of arguments, environments and files that were read.
    """

    canaries: Canaries
    folders: tuple[Path, ...] = ()
    hits: set[str] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("process", "file"), 0))
    _known: dict[tuple[str, int], object] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        # Ignore files that existed before the run: they are not temporary files of the run.
        for folder in self.folders:
            for path in _entries(folder):
                self._known[str(path), 0] = _stamp(path)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(INTERVAL):
            for pid in filter(str.isdigit, os.listdir("/proc")):
                self._process(pid)
            for folder in self.folders:
                for path in _entries(folder):
                    self._file(path)

    def _process(self, pid: str) -> None:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            if not arguments or self._known.get((pid, 1)) == arguments:
                # Skip kernel threads, which have no arguments, and processes whose arguments are
                # unchanged since the last scan.
                return
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return
        self._known[pid, 1] = arguments
        self.seen["process"] += 1
        program = os.path.basename(arguments.split(b"\0")[0].decode(errors="replace"))
        self._note(arguments, f"arguments of {program}")
        for variable in environment.split(b"\0"):
            name = variable.partition(b"=")[0].decode(errors="replace")
            self._note(variable, f"environment of {program}, {name}")

    def _file(self, path: Path) -> None:
        stamp = _stamp(path)
        if stamp is None or self._known.get((str(path), 0)) == stamp:
            return
        self._known[str(path), 0] = stamp
        self.seen["file"] += 1
        private = stamp[2] & 0o077 == 0
        self._note(_content(path), f"{'private file' if private else 'file'} {path.name}")

    def _note(self, content: bytes, where: str) -> None:
        self.hits |= {f"{name}: {where}" for name in self.canaries.found(content)}


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return time of change, size and mode of a file; None if it is gone."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_mode


def _content(path: Path) -> bytes:
    try:
        if path.is_file() and not path.is_symlink() and path.stat().st_size < LARGEST:
            return path.read_bytes()
    except OSError:
        pass
    return b""


def in_files(
    canaries: Canaries, folders: Iterable[Path], own: Iterable[Path]
) -> tuple[int, set[str]]:
    """Search files for secrets; return the number of files and descriptions of the findings.

    Args:
        canaries: The secrets to search for.
        folders: Folders to search, with their subfolders.
        own: Files and folders that may contain a secret and are skipped.
    """
    count, hits, allowed = 0, set(), set(own)
    for folder in folders:
        for place, below, files in os.walk(folder):
            here = Path(place)
            below[:] = [name for name in below if here / name not in allowed]
            for path in (here / name for name in files):
                if path in allowed or path.is_symlink():
                    continue
                count += 1
                hits |= {f"{name}: file {path}" for name in canaries.found(_content(path))}
    return count, hits
