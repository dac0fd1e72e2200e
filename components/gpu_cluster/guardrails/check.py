"""Command that checks files against the GPU rules and can read this project's stack files.

Usage: `python -m gpu_cluster.guardrails.check PATH…`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpu_cluster.guardrails.stacks import context_of_stack
from gpu_rules import command
from gpu_rules.check import __main__ as checker


def main(argv: Sequence[str] | None = None) -> int:
    """Check the files that the arguments name, and return the exit code."""
    return checker.main(argv, context_of_stack)


def run_rules(argv: Sequence[str]) -> int:
    """Run a command of `gpu-rules`, such as `explain`, and return the exit code."""
    return command.main(argv, context_of_stack)


if __name__ == "__main__":
    sys.exit(main())
