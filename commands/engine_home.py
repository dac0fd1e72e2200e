"""The engine's own folder (``PULUMI_HOME``), in which its log of every message is off."""

from __future__ import annotations

from pathlib import Path

import toolchain

TEXT = """This file keeps Pulumi from writing its automatic log of every message here: with 20 hosts
that is 9 MB in each run, up to 500 MB in all, and a third of the time of a run without change.
To have the log for one or more runs, make a folder in the place of this file.
"""


def engine_home() -> Path:
    """The folder, made where it is missing.

    The engine goes on without a log where it can't make the folder ``logs`` (pulumi v3.250.0,
    pkg/logging/encrypted.go, StartLogging); it has no setting for that. A folder of the user's
    stays.
    """
    home = toolchain.cache_dir() / "pulumi"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with (home / "logs").open("x") as file:
            file.write(TEXT)
    except FileExistsError:
        pass
    return home
