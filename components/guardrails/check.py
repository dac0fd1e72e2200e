"""`python -m components.guardrails.check PATH…`: the checker, which reads stack files too."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from components.guardrails.stacks import context_of_stack
from policies.check import __main__ as checker


def main(argv: Sequence[str] | None = None) -> int:
    """Judge what the arguments name; return the exit code."""
    return checker.main(argv, context_of_stack)


def run() -> None:
    """Run the installed command `gpu-rules`."""
    sys.exit(main())


if __name__ == "__main__":
    run()
