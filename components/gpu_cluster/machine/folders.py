"""Folders of this project on the machine on which commands run."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return ``$GPU_CLUSTER_CACHE``, or ``~/.cache/gpu-cluster``, as an absolute path.

    The folder is not created.
    """
    chosen = os.environ.get("GPU_CLUSTER_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path.home() / ".cache" / "gpu-cluster"


def make_private(path: Path) -> None:
    """Create a folder that only its owner can enter; close an existing folder for other users."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)
