"""Helpers that run the checker in this process and install packages of this project."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from gpu_cluster.commands.files import project_files
from gpu_cluster.guardrails.check import main
from gpu_rules.rules import RULES

ONLY = tuple(
    argument
    for id_ in RULES
    if id_ not in ("GPU001", "GPU004", "GPU007", "GPU023", "GPU062")
    for argument in ("--rule", f"{id_}=off")
)
"""Arguments that switch off all rules but five, so that new rules don't change test results."""
ROOT = Path(__file__).parents[3]


class Run(NamedTuple):
    """Exit code and output of a run of the checker."""

    code: int
    output: str
    errors: str


def check(*arguments: str, rules: tuple[str, ...] = ONLY) -> Run:
    """Run the checker in this process, as `python -m gpu_cluster.guardrails.check` does.

    Args:
        arguments: Command-line arguments.
        rules: Arguments that select the rules.
    """
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            code = main([*rules, *arguments])
        except SystemExit as end:
            code = int(str(end.code))
    return Run(code, output.getvalue(), errors.getvalue())


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
