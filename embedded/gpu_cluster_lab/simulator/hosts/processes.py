"""Find and stop the processes of a simulated host, even after a killed run."""

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

from gpu_cluster.machine.processes import send
from gpu_cluster_lab.simulator.hosts.locks import locked
from gpu_cluster_lab.simulator.hosts.model import HostError

_LOCK = "start.lock"
_START_LIMIT = 180.0
_PROC = Path("/proc/self/environ")

MARK = "GPU_CLUSTER_SIMULATED_HOST"
"""Environment variable with the host's folder, set in the first processes of a host."""


def find(folder: Path) -> list[int]:
    """Return the pids of all processes of the host in `folder`."""
    return find_each([folder])[folder]


def find_each(folders: Iterable[Path]) -> dict[Path, list[int]]:
    """Return the pids of all processes of each host, by the host's folder.

    All processes of the machine are scanned once. On Linux a process belongs to a host if its
    environment in /proc has the host's marker or scratch root, or if its mount namespace has the
    host's overlay. So the result does not depend on pid files. On other systems the pid file is
    used, if its pid is still that of the host's server.
    """
    by_folder: dict[Path, list[int]] = {folder: [] for folder in folders}
    if not _PROC.exists():
        return {folder: _recorded_pids(folder) for folder in by_folder}
    by_name = {os.fsencode(folder): folder for folder in by_folder}
    first = {written: folder for folder in by_folder if (written := _read_pid_file(folder))}
    pids = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    for pid in pids:
        if pid == os.getpid():
            continue
        hosts = {by_name[name] for name in _host_folders_of(pid) & by_name.keys()}
        if own := first.get((pid, started(pid))):
            hosts.add(own)
        for folder in hosts:
            by_folder[folder].append(pid)
    return by_folder


def lives(folder: Path) -> bool:
    """Check that a host's first process runs; this process runs as long as the host does."""
    if not _PROC.exists():
        return bool(_recorded_pids(folder))
    written = _read_pid_file(folder)
    return written is not None and started(written[0]) == written[1]


_MARKS = re.compile(rb"\0(?:%s=([^\0]*)|GPU_CLUSTER_ROOT=([^\0]*)/root)(?=\0)" % MARK.encode())
_OVERLAY = re.compile(rb"upperdir=([^,]*)/upper,")


def _host_folders_of(pid: int) -> set[bytes]:
    """Return the folders of the hosts to which a process belongs, from its files in /proc."""
    entry = Path(f"/proc/{pid}")
    try:
        texts = (
            *_MARKS.findall(b"\0" + (entry / "environ").read_bytes() + b"\0"),
            _OVERLAY.findall((entry / "mountinfo").read_bytes()),
        )
    except OSError:
        return set()
    return {name for text in texts for name in text}


def _is_process_of(pid: int, folder: Path) -> bool:
    """Check that a process belongs to the host in `folder`, by its files in /proc."""
    return os.fsencode(folder) in _host_folders_of(pid) or (pid, started(pid)) == _read_pid_file(
        folder
    )


def started(pid: int) -> int:
    """Return the start time of a process in clock ticks after boot (proc(5), `stat` field 22).

    Return `sys.maxsize` for a process that has ended or is a zombie.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return sys.maxsize
    fields = text[text.rindex(")") + 2 :].split()
    return sys.maxsize if fields[0] == "Z" else int(fields[19])


def _read_pid_file(folder: Path) -> tuple[int, int] | None:
    """Return the pid and start time of a host's first process from the file that `spawn` wrote."""
    try:
        pid, start = (folder / "pid").read_text().split()
        return int(pid), int(start)
    except (OSError, ValueError):
        return None


def _recorded_pids(folder: Path) -> list[int]:
    written = _read_pid_file(folder)
    if written is None:
        return []
    pid, _ = written
    shown = subprocess.run(
        ["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return [pid] if str(folder) in shown.stdout else []


def end(*folders: Path, limit: float = 60.0) -> None:
    """Kill every process of the hosts in `folders` and wait until all have ended.

    SIGKILL is sent without SIGTERM: a host's state is in files that are written atomically, and the
    kernel removes the namespaces and their mounts with the last process.

    Raises:
        HostError: A process still runs after `limit` seconds.
    """
    there = [folder for folder in folders if folder.is_dir()]
    for folder in there:
        with locked(folder / _LOCK, limit=limit):
            # A killed run may have started a process just before. Once the lock is free, that
            # process has either called exec, so that it can be found, or has ended.
            pass
    deadline = time.monotonic() + limit
    while left := {folder: pids for folder, pids in find_each(there).items() if pids}:
        for folder, pids in left.items():
            if time.monotonic() > deadline:
                raise HostError(f"{folder}: processes {pids} survive SIGKILL; look at them with ps")
            for pid in pids:
                is_meant = (
                    partial(_is_process_of, pid, folder) if _PROC.exists() else partial(bool, pid)
                )
                send(pid, signal.SIGKILL, is_meant)
        _reap_children()
        time.sleep(0.02)


def _reap_children() -> None:
    """Reap ended child processes.

    Otherwise the search for a host's processes would find zombies.
    """
    for child in list(_CHILDREN):
        if child.poll() is not None:
            _CHILDREN.remove(child)


_CHILDREN: list[subprocess.Popen[bytes]] = []


#: Shell command that waits for a start signal before it executes the host's first process.
#: Meanwhile it holds the lock, which is its standard error; the exec redirects standard error and
#: so releases the lock.
_GATE = 'read -r go && exec "$@" </dev/null 2>&1'


def spawn(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Start a host's first process in the background, with its output in `log` in `folder`.

    Between fork and exec a new process cannot be identified. So the process holds the folder's
    start lock until its exec, and starts only after its pid was recorded. If this process is killed
    at any moment, the new process either is found by `end` or ends by itself.
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
        # If the child process has already ended, the later wait for the host's SSH banner reports
        # the error.
        with contextlib.suppress(BrokenPipeError), child.stdin or contextlib.nullcontext() as gate:
            if gate is not None:
                gate.write(b"go\n")
