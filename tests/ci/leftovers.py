"""What a run left: processes, mounts and files that bear the name of its folder.

Everything that a run makes lies below one folder (clone, cache, temporary files), so whatever still
knows that folder is the run's own. What others on the same machine run does not count.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

CLUSTER = re.compile(r"\.?[a-z0-9-]+-\d+-\d+(\..*)?")
"""Files of embedded clusters that tests name by their process (tests/guard.py)."""


def processes(folder: Path) -> dict[int, str]:
    """Processes with the folder in their command, environment, work folder or mounts.

    A process in namespaces of the run is found by its mounts: an overlay names its folders. This
    process and its parents don't count.
    """
    if not Path("/proc/self/environ").exists():
        return {}
    needle = os.fsencode(folder)
    mine = _ancestors(os.getpid())
    result = {}
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid not in mine and needle in _told(entry):
            command = _read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace")
            result[pid] = command.strip()[:200]
    return result


def mounts(folder: Path) -> list[str]:
    """Mount points of this process's namespace that belong to the folder."""
    lines = _read(Path("/proc/self/mountinfo")).decode(errors="replace").splitlines()
    return [line.split()[4] for line in lines if str(folder) in line]


def files(temporary: Path, cache: Path) -> list[str]:
    """Temporary files beyond pytest's own folders, and folders of clusters that tests made."""
    left = [path for path in _entries(temporary) if not path.name.startswith("pytest-of-")]
    for name in ("embedded", "tmp"):
        left += [path for path in _entries(cache / name) if CLUSTER.fullmatch(path.name)]
    return sorted(map(str, left))


def await_none(folder: Path, seconds: float) -> dict[int, str]:
    """What still runs after at most so many seconds: processes need a moment to end."""
    deadline = time.monotonic() + seconds
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def end(pids: dict[int, str]) -> None:
    """Ends processes of the run, so that the machine stays clean though the run failed."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _told(entry: Path) -> bytes:
    texts = [_read(entry / name) for name in ("cmdline", "environ", "mountinfo")]
    with contextlib.suppress(OSError):
        texts.append(os.fsencode(os.readlink(entry / "cwd")))
    return b"\0".join(texts)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended, or it is somebody else's
        return b""


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _ancestors(pid: int) -> set[int]:
    pids = set()
    while pid > 0:
        pids.add(pid)
        text = _read(Path(f"/proc/{pid}/stat")).decode(errors="replace")
        pid = int(text[text.rindex(")") + 2 :].split()[1]) if text else 0
    return pids
