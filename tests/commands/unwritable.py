"""Paths to which a command can't write its result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpu_rules.faults import FaultError


def assert_refused(folder: Path, name: str, run: Callable[..., Any]) -> None:
    """Check that a verb refuses paths where no file can be written.

    Args:
        folder: A folder that exists.
        name: Name of a file.
        run: Runs the verb with the option `file`.
    """
    for path, problem in (
        (folder, "a folder"),
        (folder / "none" / name, "a path whose folder does not exist"),
    ):
        with pytest.raises(FaultError, match=f"--file: found .*, {problem}; wanted"):
            run(file=str(path))


def read_nothing(*_: Any) -> Any:
    """Fail: stands for what a command reads after it has checked the path."""
    raise AssertionError
