"""`make start`: starts the embedded cluster and its hosts, without the stack."""

from __future__ import annotations

import os

from commands.environment import variables
from commands.stack import Stack
from commands.watched import answering


def main() -> None:
    """Runs the command; a stack on a cluster of its own has nothing to start."""
    stack = Stack.current()
    with answering("start"), stack.held("make start"):
        os.environ.update(variables(stack))
        stack.start()


if __name__ == "__main__":
    main()
