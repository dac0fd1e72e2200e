"""Control groups for nodes, one per node, so that several kubelets can run on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "gpu-cluster-real-"
_LIMIT = 10.0


def name_of(node: str) -> str:
    """Return the name of a node's control group."""
    return f"{PREFIX}{node}"


def make(node: str) -> None:
    """Create a node's control groups, one below the root of each cgroup hierarchy."""
    for hierarchy in _list_hierarchies():
        (hierarchy / name_of(node)).mkdir(exist_ok=True)


def remove(node: str) -> None:
    """Remove a node's control groups with all subgroups, and kill the processes in them."""
    for hierarchy in _list_hierarchies():
        group = hierarchy / name_of(node)
        deadline = time.monotonic() + _LIMIT
        while group.exists() and time.monotonic() < deadline:
            for folder, _, _ in os.walk(group, topdown=False):
                _end_group(Path(folder))
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            time.sleep(0.05)


def _list_hierarchies() -> list[Path]:
    if (ROOT / "cgroup.procs").exists():
        return [ROOT]
    return [path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink()]


def _end_group(group: Path) -> None:
    with contextlib.suppress(OSError):
        for pid in (group / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
