"""Functions that make untrusted strings safe to print or to pass to other programs."""

from __future__ import annotations

import re
from collections.abc import Sequence

LIMIT = 4096
"""Maximum length of a printed string, in characters. One Linux environment variable may have
128 KiB (MAX_ARG_STRLEN).
"""

# Text that the runner of GitHub Actions reads as a command: `::name …::` at the beginning of a
# line, and `##[name]` anywhere (actions/runner src/Runner.Common/ActionCommand.cs).
_COMMAND = re.compile(r"^\s*:(?=:)|##(?=\[)")


def _escape_command(match: re.Match[str]) -> str:
    return f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}"


def printable(text: str, limit: int = LIMIT) -> str:
    r"""Return a string as one line without control characters or GitHub workflow commands.

    Args:
        text: Text read from a host, a cluster, a chart or a pull request.
        limit: Maximum number of characters to keep; the result names the number of those cut off.

    Returns:
        The string with each invisible character written as its escape sequence, such as `\x1b`.
    """
    cut, shortened = len(text) - limit, text[:limit]
    if not shortened.isprintable():
        shortened = "".join(
            character if character.isprintable() else character.encode("unicode_escape").decode()
            for character in shortened
        )
    escaped = _COMMAND.sub(_escape_command, shortened)
    return f"{escaped} (and {cut} characters more)" if cut > 0 else escaped


def printable_lines(text: str, limit: int = 64 * LIMIT) -> str:
    """Return a string with each line made printable, as in `printable`; line breaks are kept."""
    cut = text if len(text) <= limit else f"{text[:limit]} (and {len(text) - limit} more)"
    return "\n".join(printable(line, limit) for line in cut.split("\n"))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def shortened(names: Sequence[str], most: int) -> str:
    """Return a list of names for a message: the first names, and the number of further names.

    Args:
        names: Names that are already printable.
        most: Maximum number of names to list.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
