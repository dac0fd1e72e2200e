"""Folder of the engine's own files, in which it writes no automatic log."""

from __future__ import annotations

import contextlib
from pathlib import Path

_NO_LOG = """\
This file keeps Pulumi from writing its automatic log of every message here: with 20 hosts that is
9 MB in each run, up to 500 MB in all, and a third of the time of a run without change.
To get the log for one or more runs, create a folder in the place of this file.
"""


def engine_home(cache: Path) -> Path:
    """Return the engine's folder (`PULUMI_HOME`), created if it is missing, without a log.

    Without this workaround the engine writes a log of every message: 9 MB in each run with 20
    hosts, which takes a third of the time of a run without changes. At first the log is not
    encrypted. The engine has no setting to turn the log off (pulumi/pulumi issue 22416
    requests one), but it continues without a log if it can't create the folder `logs` (pulumi
    v3.250.0, pkg/logging/encrypted.go, StartLogging). So this function creates a file with the name
    `logs`. A folder `logs` that the user created is kept.
    """
    home = cache / "pulumi"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError), (home / "logs").open("x") as file:
        file.write(_NO_LOG)
    return home
