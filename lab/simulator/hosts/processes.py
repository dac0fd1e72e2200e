"""Find and end the processes of a simulated host, whatever state a killed run left them in."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from lab.simulator.hosts.locks import locked
from lab.simulator.hosts.model import HostError
from lab.simulator.processes import send

_LOCK = "start.lock"
_START_LIMIT = 20.0
_PROC = Path("/proc/self/environ")

MARK = "GPU_CLUSTER_SIMULATED_HOST"
"""Environment variable with the host's folder, carried by the first processes of a host."""


def find(folder: Path) -> list[int]:
    """Every process of the host in ``folder``."""
    return find_each([folder])[folder]


def find_each(folders: Iterable[Path]) -> dict[Path, list[int]]:
    """Every process of each host, by the host's folder: one look at all processes.

    On Linux by what the kernel says: the mark in the environment, the scratch root in it, or the
    host's overlay in the process's mount namespace; so nothing depends on records of our own.
    Elsewhere by the recorded process id, if that process still is this host's server.
    """
    found: dict[Path, list[int]] = {folder: [] for folder in folders}
    if not _PROC.exists():
        return {folder: _recorded(folder) for folder in found}
    by_name = {os.fsencode(folder): folder for folder in found}
    first = {written: folder for folder in found if (written := _written(folder))}
    pids = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    for pid in pids:
        if pid == os.getpid():
            continue
        hosts = {by_name[name] for name in _names(pid) & by_name.keys()}
        if own := first.get((pid, started(pid))):
            hosts.add(own)
        for folder in hosts:
            found[folder].append(pid)
    return found


def lives(folder: Path) -> bool:
    """Whether the host's first process lives, which is there as long as the host is."""
    if not _PROC.exists():
        return bool(_recorded(folder))
    written = _written(folder)
    return written is not None and started(written[0]) == written[1]


_MARKS = re.compile(rb"\0(?:%s=([^\0]*)|GPU_CLUSTER_ROOT=([^\0]*)/root)(?=\0)" % MARK.encode())
_OVERLAY = re.compile(rb"upperdir=([^,]*)/upper,")


def _names(pid: int) -> set[bytes]:
    """The folders of the hosts that the kernel shows a process as one of."""
    entry = Path(f"/proc/{pid}")
    try:
        texts = (
            *_MARKS.findall(b"\0" + (entry / "environ").read_bytes() + b"\0"),
            _OVERLAY.findall((entry / "mountinfo").read_bytes()),
        )
    except OSError:
        return set()
    return {name for text in texts for name in text}


def _is_of(pid: int, folder: Path) -> bool:
    """Whether a process is the host's, by what the kernel says about it."""
    return os.fsencode(folder) in _names(pid) or (pid, started(pid)) == _written(folder)


def started(pid: int) -> int:
    """When a living process started, in clock ticks after boot (proc(5), field 22 of ``stat``).

    ``sys.maxsize`` for one that is gone or waits to be collected.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return sys.maxsize
    fields = text[text.rindex(")") + 2 :].split()
    return sys.maxsize if fields[0] == "Z" else int(fields[19])


def _written(folder: Path) -> tuple[int, int] | None:
    """Id and start of the host's first process as :func:`spawn` wrote them down."""
    try:
        pid, start = (folder / "pid").read_text().split()
        return int(pid), int(start)
    except (OSError, ValueError):
        return None


def _recorded(folder: Path) -> list[int]:
    written = _written(folder)
    if written is None:
        return []
    pid, _ = written
    shown = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return [pid] if str(folder) in shown.stdout else []


def end(*folders: Path, limit: float = 10.0) -> None:
    """End every process of the hosts in ``folders`` and wait until none is left.

    SIGKILL at once: a host's state lives in files that are written whole, and the kernel takes the
    namespaces and their mounts away with the last process.

    :raises HostError: a process survives ``limit`` seconds.
    """
    there = [folder for folder in folders if folder.is_dir()]
    for folder in there:
        with locked(folder / _LOCK, limit=limit):
            pass  # what a killed run began is past its exec now, or gone
    deadline = time.monotonic() + limit
    while left := {folder: pids for folder, pids in find_each(there).items() if pids}:
        for folder, pids in left.items():
            if time.monotonic() > deadline:
                raise HostError(f"{folder}: processes {pids} survive SIGKILL; look at them with ps")
            for pid in pids:
                is_meant = partial(_is_of, pid, folder) if _PROC.exists() else partial(bool, pid)
                send(pid, signal.SIGKILL, is_meant)
        _reap()
        time.sleep(0.02)


def _reap() -> None:
    """Collect ended children of this process, or they would be found again as zombies."""
    for child in list(_CHILDREN):
        if child.poll() is not None:
            _CHILDREN.remove(child)


_CHILDREN: list[subprocess.Popen[bytes]] = []


#: Waits for the word to go with the lock on its standard error; drops the lock by the exec.
_GATE = 'read -r go && exec "$@" </dev/null 2>&1'


def spawn(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Start a host's first process, detached, its output going to ``log`` in ``folder``.

    A process can't be told from others between its fork and its exec. So it holds the folder's
    start lock until then, and begins only after its id was written down: a kill of this process
    at any moment leaves one that :func:`end` finds, or one that ends by itself.
    """
    with (
        locked(folder / _LOCK, limit=_START_LIMIT) as lock,
        (folder / "log").open("ab") as log,
    ):
        child = subprocess.Popen(
            ["sh", "-c", _GATE, "sh", *command],
            cwd="/",
            env={"PATH": os.environ.get("PATH", os.defpath), **environment, MARK: str(folder)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=lock,
            start_new_session=True,
        )
        _CHILDREN.append(child)
        (folder / "pid").write_text(f"{child.pid} {started(child.pid)}\n")
        # A dead child shows in the wait for its banner.
        with contextlib.suppress(BrokenPipeError), child.stdin or contextlib.nullcontext() as gate:
            if gate is not None:
                gate.write(b"go\n")
