"""Tools on PATH: the first that fits, its version asked once and remembered."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from . import versions
from .cache import write_atomically
from .pins import Pin
from .tool import ON_PATH, Tool

#: Seconds that a tool has to tell its version: the largest is 300 MB, perhaps on a busy disk.
ASK_LIMIT = 20.0


def ask(pin: Pin, executable: Path) -> str | None:
    """The version that ``executable`` tells, ``None`` where it tells none in :data:`ASK_LIMIT`."""
    if pin.plugin:
        from .plugin import ask_plugin

        return ask_plugin(executable, pin.plugin, ASK_LIMIT)
    environment = {**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        done = subprocess.run(
            [str(executable), *pin.version_arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ASK_LIMIT,
            stdin=subprocess.DEVNULL,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return versions.find(done.stdout + done.stderr) if done.returncode == 0 else None


@dataclass
class PathSearch:
    """Looks along ``path`` (as in ``$PATH``), leaving out folders below ``excluded``.

    ``memory``: file that remembers versions by path, size, inode and time of change, so that a
    warm run starts no process.
    """

    path: str
    excluded: Path
    memory: Path
    asker: Callable[[Pin, Path], str | None] = ask
    _known: dict[str, dict[str, str | None]] | None = field(default=None, init=False)

    def find(self, pin: Pin) -> Tool | None:
        """The tool on PATH if there is one and its version fits."""
        excluded = self.excluded.resolve()
        for folder in self.path.split(os.pathsep):
            if not folder or Path(folder).resolve().is_relative_to(excluded):
                continue
            program = shutil.which(pin.name, path=folder)
            if program is None:
                continue
            executable = Path(program).absolute()
            version = self._version(pin, executable)
            if version is not None and pin.fits.holds(version):
                return Tool(pin.name, version, ON_PATH, executable)
            return None  # the first one is what a shell would run; no other is looked at
        return None

    def _version(self, pin: Pin, executable: Path) -> str | None:
        real = executable.resolve()
        status = real.stat()
        stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        known = self._read()
        record = known.get(str(real))
        if record is None or record["stamp"] != stamp:
            record = {"stamp": stamp, "version": self.asker(pin, executable)}
            known[str(real)] = record
            write_atomically(self.memory, json.dumps(known, indent=2, sort_keys=True) + "\n")
        return record["version"]

    def _read(self) -> dict[str, dict[str, str | None]]:
        if self._known is None:
            try:
                self._known = json.loads(self.memory.read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                self._known = {}
        return self._known
