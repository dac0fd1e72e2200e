"""The files of the project: tracked by git, or new and not ignored."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def project_files() -> list[str]:
    """Return the relative paths of the project's files, except files that git ignores."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return [name for name in listed if name and (ROOT / name).is_file()]


def copy_project(folder: Path) -> None:
    """Copy the project into a folder, without its tests; link its virtual environment."""
    for name in project_files():
        if not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    (folder / "venv").symlink_to(ROOT / "venv")
