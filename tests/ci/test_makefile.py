"""The order of what `make` does."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_tools_are_built_before_the_tests_whose_limits_have_no_room_for_it() -> None:
    shown = subprocess.run(
        ["make", "--dry-run", "--old-file=venv/.complete", "test"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = shown.stdout.splitlines()
    built = next(n for n, line in enumerate(lines) if line.endswith("-m toolchain"))
    tested = next(n for n, line in enumerate(lines) if "-m pytest" in line)
    assert built < tested
