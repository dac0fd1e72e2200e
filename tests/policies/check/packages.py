"""Helpers that copy this project's files and install its packages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from gpu_cluster.commands.files import project_files
from tests.policies.check.running import ROOT


def copy(target: Path, *beginnings: str) -> None:
    """Copy the project's files whose paths begin with one of the given texts to a folder."""
    for name in project_files():
        if name.startswith(beginnings):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())


def install(source: Path, target: Path) -> None:
    """Build the package of a source folder and unpack its wheel, like an offline `pip install`."""
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(target)],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    wheel.unlink()
