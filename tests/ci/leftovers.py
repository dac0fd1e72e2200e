"""Find processes, mounts and files that a test run left, by the name of the run's folder.

Everything that a run makes is inside one folder (clone, cache, temporary files). So every process
that still refers to this folder belongs to the run. Processes of other runs on the same machine are
ignored.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

CLUSTER = re.compile(r"\.?[a-z0-9-]+-\d+-\d+(\..*)?")
"""Pattern for files of embedded clusters that tests name after their process (tests/guard.py)."""


def processes(folder: Path) -> dict[int, str]:
    """Return the processes that refer to a folder in their command, environment or directory.

    Processes that have the folder in their mounts count too: a process in a mount namespace of the
    run is found in this way, because an overlay mount names its folders. This process and its
    parents are omitted.
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
    """Return the mount points that a run left in this process's namespace, by the run's folder."""
    lines = _read(Path("/proc/self/mountinfo")).decode(errors="replace").splitlines()
    return [line.split()[4] for line in lines if str(folder) in line]


def files(temporary: Path, cache: Path) -> list[str]:
    """Return the temporary files that a run left.

    pytest's own files are omitted; the folders of clusters made by tests are included.
    """
    left = [path for path in _entries(temporary) if not path.name.startswith("pytest-of-")]
    for name in ("embedded", "tmp"):
        left += [path for path in _entries(cache / name) if CLUSTER.fullmatch(path.name)]
    return sorted(map(_described, left))


def await_none(folder: Path, seconds: float) -> dict[int, str]:
    """Wait until no process of the run exists; return the processes that exist after the limit.

    Args:
        folder: The folder of the run.
        seconds: The time limit in seconds.
    """
    deadline = time.monotonic() + seconds
    while (left := processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return left


def end(pids: dict[int, str]) -> None:
    """Kill the remaining processes of a run, so that the machine stays clean if the run failed."""
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
    # The process has ended or belongs to another user, so its files in /proc can't be read.
    except OSError:
        return b""


def _described(path: Path) -> str:
    inside = sorted(str(file.relative_to(path)) for file in path.rglob("*"))[:5]
    return f"{path} (with {', '.join(inside) or 'no file'})" if path.is_dir() else str(path)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _ancestors(pid: int) -> set[int]:
    pids = set()
    while pid > 0:
        pids.add(pid)
        text = _read(Path(f"/proc/{pid}/stat")).decode(errors="replace")
        pid = int(text[text.rindex(")") + 2 :].split()[1]) if text else 0
    return pids
