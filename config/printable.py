"""Makes strings that come from outside fit to be shown or passed on."""

from __future__ import annotations

import unicodedata

LIMIT = 4096
"""Characters that a finding keeps; Linux takes 128 KiB for one variable (MAX_ARG_STRLEN)."""

#: Controls, invisible and direction-changing characters, halves of pairs, private ones, line ends.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str, limit: int = LIMIT) -> str:
    """A string on one line that no terminal, log or table takes for an instruction.

    Args:
        text: read from a host, a cluster, a chart or a pull request.
        limit: characters to keep; what is cut off is counted.

    Returns:
        The string with every character that isn't visible written as its escape, such as ``\\x1b``.
    """
    cut = len(text) - limit
    shown = "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in _HIDDEN
        else character
        for character in text[:limit]
    )
    return f"{shown} (and {cut} characters more)" if cut > 0 else shown
