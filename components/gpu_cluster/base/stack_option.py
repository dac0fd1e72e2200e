"""The option `STACK` of the commands that messages tell the user to run."""

from __future__ import annotations

import shlex

DEFAULT = "dev"
"""Stack of a command without `STACK`."""


def stack_option(stack: str) -> str:
    """Return the text between a command's name and its other options, such as `` STACK=lab``.

    The text is empty for the default stack.
    """
    return "" if stack == DEFAULT else f" STACK={shlex.quote(stack)}"
