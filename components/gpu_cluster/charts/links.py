"""Links in the project's folder to charts that are in a package.

The state keeps a chart's path relative to the project's folder. So a stack is the same in a clone
and in a site, and on each person's machine.
"""

from __future__ import annotations

import os
from pathlib import Path

PROJECT_FILES = ".gpu-cluster"
"""Folder for generated files of a project, next to `Pulumi.yaml`; git ignores it."""


def link_chart(link: Path, folder: Path) -> None:
    """Make a link to a folder with charts, or replace a link to another folder.

    Args:
        link: Path of the link, below `PROJECT_FILES` of the project's folder.
        folder: The folder with charts in the installed package.
    """
    if link.is_symlink() and link.readlink() == folder:
        return
    link.parent.mkdir(exist_ok=True)
    # Replace the link in one step, so that a parallel run finds either the old or the new link.
    made = link.with_name(f".{link.name}.{os.getpid()}")
    made.unlink(missing_ok=True)
    made.symlink_to(folder)
    made.replace(link)
