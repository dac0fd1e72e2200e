"""`make down`: destroys the stack, then stops the embedded cluster and its hosts."""

from __future__ import annotations

import time

from commands.destroy import destroy
from commands.stack import Stack


def main() -> None:
    """Runs the command; exit code 1 when something of the stack is left: then all goes on."""
    started = time.monotonic()
    stack = Stack.current()
    with stack.unsalted():
        removed = destroy(stack)
    stack.stop()
    print(f"down: {removed} resources removed, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
