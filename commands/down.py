"""`make down`: destroys the stack, then stops the embedded cluster and its hosts."""

from __future__ import annotations

import sys
import time

from pulumi import automation

from .engine import color, say, select
from .stack import Stack
from .up import changed


def run(stack: Stack) -> None:
    """Runs the command on a stack."""
    started = time.monotonic()
    selected = select(stack)
    deleted = 0
    if (selected.export_stack().deployment or {}).get("resources"):
        stack.start()
        try:
            result = selected.destroy(on_output=say, color=color())
        except automation.CommandError:
            print("down: failed, cluster and hosts still run; the cause stands above")
            sys.exit(1)
        deleted = changed(result.summary)
    stack.stop()
    print(f"down: {deleted} resources removed, {time.monotonic() - started:.0f} s")


def main() -> None:
    """Runs the command; exit code 1 when something of the stack is left."""
    stack = Stack.current()
    with stack.unsalted():
        run(stack)


if __name__ == "__main__":
    main()
