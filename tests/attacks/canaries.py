"""Canaries: secrets that are looked for wherever they must not be, while commands run and after."""

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

from components.ssh.keys import shortest

INTERVAL = 0.02
"""Seconds between two looks at processes and temporary files; what lives shorter isn't seen."""
LARGEST = 64 << 20
"""Bytes of the largest file that is read."""
SHORTEST = 12
"""Characters that are enough to tell a part of a secret from chance."""


def forms(part: bytes) -> Iterator[bytes]:
    """A part of a secret as it may stand in a file: itself, in hexadecimal, in base64.

    In base64 it may begin at each of three places of its surroundings, and its ends depend on them.
    """
    yield part
    yield part.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + part)
        yield encoded[4 if shift else 0 : len(encoded) // 4 * 4 - 4]


@dataclass(frozen=True)
class Canaries:
    """Secrets by name, and the pattern that finds any of them.

    Attributes:
        parts: by name, what of it is looked for; each at least `SHORTEST` characters.
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
        """Names of those that stand in some bytes; never what they are."""
        return {self._names[match.group()] for match in self.pattern.finditer(content)}


def key_parts(text: str) -> tuple[bytes, ...]:
    """What is looked for of a key in PEM: the second half of its lines, for the first is public.

    Of a key of OpenSSH's own format also in PKCS#8, as the state and the plugin get it. There the
    secret of Ed25519 has no line of its own: it begins at the 22nd character (RFC 8410, 7).
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
    """Looks at all processes and at some folders, again and again, while it is entered.

    Attributes:
        canaries: what is looked for.
        folders: those in which files come and go.
        hits: where one was seen, in words.
        seen: how many arguments, environments and files were looked at.
    """

    canaries: Canaries
    folders: tuple[Path, ...] = ()
    hits: set[str] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("process", "file"), 0))
    _known: dict[tuple[str, int], object] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Watch:
        for folder in self.folders:  # what was there before is no temporary file of a run
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
                return  # the kernel's own, or the same program still
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
        self._note(_content(path), f"file {path.name}")

    def _note(self, content: bytes, where: str) -> None:
        self.hits |= {f"{name}: {where}" for name in self.canaries.found(content)}


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


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
    """How many files below some folders were read, and which hold a canary.

    Args:
        canaries: what is looked for.
        folders: where.
        own: files and folders where a secret belongs; they are left out.
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
