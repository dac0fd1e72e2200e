"""Paths to which a command can't write its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def assert_refused(
    patch: pytest.MonkeyPatch, variable: str, folder: Path, name: str, run: Callable[[], None]
) -> None:
    """Check that a command refuses paths where no file can be written.

    Args:
        patch: Sets the variable.
        variable: Environment variable with the path of the command's result.
        folder: A folder that exists.
        name: Name of a file.
        run: Runs the command.
    """
    for path, problem in (
        (folder, "a folder"),
        (folder / "none" / name, "a path whose folder does not exist"),
    ):
        patch.setenv(variable, str(path))
        with pytest.raises(SystemExit, match=f"{variable}: found .*, {problem}; wanted"):
            run()


def read_nothing(*_: Any) -> Any:
    """Fail: stands for what a command reads after it has checked the path."""
    raise AssertionError
