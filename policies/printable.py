"""Makes strings that come from outside fit to be shown or passed on."""

from __future__ import annotations

import re
from collections.abc import Sequence

LIMIT = 4096
"""Characters that a finding keeps; Linux takes 128 KiB for one variable (MAX_ARG_STRLEN)."""

#: What GitHub's runner takes for a command: `::name …::` that begins a line, `##[name]` anywhere
#: (actions/runner src/Runner.Common/ActionCommand.cs).
_COMMAND = re.compile(r"^\s*:(?=:)|##(?=\[)")


def _escaped(match: re.Match[str]) -> str:
    return f"{match[0][:-1]}\\x{ord(match[0][-1]):02x}"


def printable(text: str, limit: int = LIMIT) -> str:
    """A string on one line that no terminal, log or table takes for an instruction.

    Args:
        text: read from a host, a cluster, a chart or a pull request.
        limit: characters to keep; what is cut off is counted.

    Returns:
        The string with every character that isn't visible written as its escape, such as ``\\x1b``.
    """
    cut, kept = len(text) - limit, text[:limit]
    if not kept.isprintable():
        kept = "".join(
            one if one.isprintable() else one.encode("unicode_escape").decode() for one in kept
        )
    shown = _COMMAND.sub(_escaped, kept)
    return f"{shown} (and {cut} characters more)" if cut > 0 else shown


def printable_lines(text: str, limit: int = 64 * LIMIT) -> str:
    """As `printable`, for messages of several lines: those stay lines."""
    cut = text if len(text) <= limit else f"{text[:limit]} (and {len(text) - limit} more)"
    return "\n".join(printable(line, limit) for line in cut.split("\n"))


def shortened(names: Sequence[str], most: int) -> str:
    """Return the first names in one line, and how many more there are.

    Args:
        names: each is printable already.
        most: names to spell out.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
