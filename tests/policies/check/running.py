"""Helpers that run the checker in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gpu_rules.check import __main__ as checker
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


def check(
    *arguments: str,
    rules: tuple[str, ...] = ONLY,
    main: Callable[[Sequence[str]], int] = checker.main,
) -> Run:
    """Run the checker in this process, as `gpu-rules check` does.

    Args:
        arguments: Command-line arguments.
        rules: Arguments that select the rules.
        main: Function that gets all arguments and returns the exit code.
    """
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            code = main([*rules, *arguments])
        except SystemExit as end:
            code = int(str(end.code))
    return Run(code, output.getvalue(), errors.getvalue())
