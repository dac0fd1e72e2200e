"""Check that an SSH host is prepared: its containerd drop-in must define the runtime `nvidia`."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Path to which `nvidia-ctk runtime configure` writes (NVIDIA Container Toolkit 1.18.1 and later).
DROP_IN = Path("etc/containerd/conf.d/99-nvidia.toml")

#: Seconds for which the result of a search for a host's root folder is cached: if the folder was
#: found, and if it wasn't. The search inspects every process of the machine.
ROOT_SECONDS = 5.0
MISSING_SECONDS = 1.0

Root = Callable[[str], Path | None]


def names_nvidia_runtime(text: str) -> bool:
    """Check that a containerd drop-in defines the runtime `nvidia` in its CRI plugin."""
    try:
        plugins: dict[str, Any] = tomllib.loads(text).get("plugins", {})
        return any(
            "nvidia" in plugin.get("containerd", {}).get("runtimes", {})
            for plugin in plugins.values()
        )
    except (tomllib.TOMLDecodeError, AttributeError, TypeError):
        return False


class Preparation:
    """Cached preparation state of each host; a file is read again only after it has changed."""

    def __init__(self, root: Root) -> None:
        """Store the function that returns the root folder of a host's file system."""
        self._root = root
        self._roots: dict[str, tuple[float, Path | None]] = {}
        self._known: dict[str, tuple[tuple[int, int, int] | None, bool]] = {}

    def look(self, host: str) -> bool:
        """Check that the host's container runtime is prepared at this moment."""
        root = self._root_of(host)
        path = root / DROP_IN if root else None
        try:
            status = path.stat() if path else None
        except OSError:
            status = None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size) if status else None
        if host in self._known and self._known[host][0] == stamp:
            return self._known[host][1]
        prepared = bool(path and status) and self._read(path)
        self._known[host] = (stamp, prepared)
        return prepared

    def _root_of(self, host: str) -> Path | None:
        until, root = self._roots.get(host, (0.0, None))
        now = time.monotonic()
        if now < until and (root is None or root.exists()):
            return root
        root = self._root(host)
        self._roots[host] = (now + (ROOT_SECONDS if root else MISSING_SECONDS), root)
        return root

    @staticmethod
    def _read(path: Path | None) -> bool:
        try:
            return path is not None and names_nvidia_runtime(path.read_text())
        except (OSError, UnicodeDecodeError):
            return False
