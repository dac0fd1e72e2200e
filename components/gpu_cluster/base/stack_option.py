"""The option `--stack` of the commands that messages tell the user to run."""

from __future__ import annotations

import shlex

DEFAULT = "dev"
"""Stack of a command without `--stack`."""


def stack_option(stack: str) -> str:
    """Return the text between a command's name and its other options, such as `` --stack lab``.

    The text is empty for the default stack.
    """
    return "" if stack == DEFAULT else f" --stack {shlex.quote(stack)}"
