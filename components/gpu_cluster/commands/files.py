"""The files of the project (tracked by git, or new and not ignored), and files that users name."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from gpu_rules.faults import Fault, FaultError
from gpu_rules.printable import printable

ROOT = Path(__file__).resolve().parents[3]


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


def new_file(option: str, path: str) -> Path:
    """Return the path of a file that a command will write; checked before the command runs.

    Args:
        option: Option or environment variable that names the file, for the error.

    Raises:
        FaultError: The path can't become a file.
    """
    file = Path(path)
    if file.is_dir():
        problem = "a folder"
    elif not file.parent.is_dir():
        problem = "a path whose folder does not exist"
    elif not os.access(file.parent, os.W_OK):
        problem = "a path in a folder that you can't write to"
    else:
        return file
    found = f"{printable(path, 200)}, {problem}"
    cure = f"create the folder, or name another file with {option}"
    raise FaultError(Fault(option, found, "a path where a file can be written", cure))
