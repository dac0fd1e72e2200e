"""Find and end the processes of a simulated host, whatever state a killed run left them in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from simulator.hosts.model import HostError

MARK = "GPU_CLUSTER_SIMULATED_HOST"
"""Environment variable with the host's folder, carried by the first processes of a host."""


def find(folder: Path) -> list[int]:
    """Every process of the host in ``folder``.

    On Linux by what the kernel says: the mark in the environment, the scratch root in it, or the
    host's overlay in the process's mount namespace; so nothing depends on records of our own.
    Elsewhere by the recorded process id, if that process still is this host's server.
    """
    if not Path("/proc/self/environ").exists():
        return _recorded(folder)
    marks = (
        b"\0%s=%s\0" % (MARK.encode(), os.fsencode(folder)),
        b"\0GPU_CLUSTER_ROOT=%s\0" % os.fsencode(folder / "root"),
    )
    overlay = b"upperdir=%s/upper," % os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = b"\0" + (entry / "environ").read_bytes() + b"\0"
            if (
                any(mark in environment for mark in marks)
                or overlay in (entry / "mountinfo").read_bytes()
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return sorted(found)


def started(pid: int) -> int:
    """When a process started, in clock ticks after boot (proc(5), field 22 of ``stat``)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return sys.maxsize
    return int(text[text.rindex(")") + 2 :].split()[19])


def _recorded(folder: Path) -> list[int]:
    try:
        pid = int((folder / "pid").read_text())
    except (OSError, ValueError):
        return []
    shown = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return [pid] if str(folder) in shown.stdout else []


def end(folder: Path, limit: float = 10.0) -> None:
    """End every process of the host in ``folder`` and wait until none is left.

    SIGKILL at once: a host's state lives in files that are written whole, and the kernel takes the
    namespaces and their mounts away with the last process.

    :raises HostError: a process survives ``limit`` seconds.
    """
    deadline = time.monotonic() + limit
    while pids := find(folder):
        if time.monotonic() > deadline:
            raise HostError(f"{folder}: processes {pids} survive SIGKILL; look at them with ps")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        _reap()
        time.sleep(0.02)


def _reap() -> None:
    """Collect ended children of this process, or they would be found again as zombies."""
    for child in list(_CHILDREN):
        if child.poll() is not None:
            _CHILDREN.remove(child)


_CHILDREN: list[subprocess.Popen[bytes]] = []


def spawn(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Start a host's first process, detached, its output going to ``log`` in ``folder``."""
    with (folder / "log").open("ab") as log:
        child = subprocess.Popen(
            command,
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), **environment, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _CHILDREN.append(child)
    (folder / "pid").write_text(f"{child.pid}\n")
