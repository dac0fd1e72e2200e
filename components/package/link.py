"""Symbolic link through which Pulumi Commands find this package's programs on each machine."""

from __future__ import annotations

import os
from pathlib import Path


def place(root: Path) -> None:
    """Make the symbolic link in Pulumi's home folder point to the package.

    The state holds no path of a machine, so Commands name this link (`components.operation`). The
    link is replaced as a whole: a Command that runs meanwhile finds the old or the new folder.

    Args:
        root: Folder that contains `components`.
    """
    home = os.environ.get("PULUMI_HOME")
    folder = Path(home) if home else Path.home() / ".pulumi"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    link = folder / "gpu-cluster"
    made = folder / f".gpu-cluster.{os.getpid()}"
    made.unlink(missing_ok=True)
    made.symlink_to(root)
    made.replace(link)
