"""`make down`: destroys the stack, then stops the embedded cluster and its hosts."""

from __future__ import annotations

import time

from commands.destroy import destroy
from commands.stack import Stack
from commands.watched import answering


def main() -> None:
    """Runs the command; exit code 1 when something of the stack is left: then all goes on."""
    started = time.monotonic()
    stack = Stack.current()
    with answering("down") as answer, stack.held("make down"):
        with stack.unsalted():
            answer["removed"] = destroy(stack, answer)
        stack.stop()
        seconds = time.monotonic() - started
        print(f"down: {answer['removed']} resources removed, {seconds:.0f} s")


if __name__ == "__main__":
    main()
