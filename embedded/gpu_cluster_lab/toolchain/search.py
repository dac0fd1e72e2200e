"""Find tools on PATH.

The first executable with a tool's name is used if its version fits. Versions are cached.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpu_cluster.machine.tool import ON_PATH, Tool

from . import versions
from .cache import write_atomically
from .pins import Pin

# Seconds to wait until a tool has printed its version. The largest tool has 300 MB, and the disk
# may be busy.
ASK_LIMIT = 20.0


def ask(pin: Pin, executable: Path) -> str | None:
    """Return the version that a tool prints, or ``None``.

    The result is ``None`` if the tool prints no version within `ASK_LIMIT` seconds.
    """
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
    """Search for pinned tools on PATH.

    Attributes:
        path: Folders to search, in the format of ``$PATH``.
        excluded: Folder that is skipped, with all folders below it.
        memory: File that caches versions by path, size, inode and modification time, so that a
            later run starts no process.
        asker: Function that runs an executable and returns its version.
    """

    path: str
    excluded: Path
    memory: Path
    asker: Callable[[Pin, Path], str | None] = ask
    _known: dict[str, dict[str, str | None]] | None = field(default=None, init=False)

    def find(self, pin: Pin) -> Tool | None:
        """Return the tool if it is on PATH, or ``None``.

        The result is also ``None`` if the version on PATH does not fit the pin.
        """
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
            # Don't search later folders, because a shell would also run the first executable on
            # PATH.
            return None
        return None

    def _version(self, pin: Pin, executable: Path) -> str | None:
        real = executable.resolve()
        status = real.stat()
        stamp = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
        records = self._read()
        record = records.get(str(real))
        if record is None or record["stamp"] != stamp:
            record = {"stamp": stamp, "version": self.asker(pin, executable)}
            records[str(real)] = record
            write_atomically(self.memory, json.dumps(records, indent=2, sort_keys=True) + "\n")
        return record["version"]

    def _read(self) -> dict[str, dict[str, str | None]]:
        if self._known is None:
            try:
                self._known = json.loads(self.memory.read_text(encoding="utf-8"))
            except (FileNotFoundError, ValueError):
                self._known = {}
        return self._known
