"""Syntax of version numbers."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpu_rules.faults import refuse, show


def pattern(expression: str, wanted: str, example: str) -> Callable[[str], str]:
    """Return a validator that accepts texts which match a regular expression.

    Args:
        expression: The regular expression, which must match the whole text.
        wanted: Description of a valid text, for the error.
        example: Valid text, for the error.
    """
    compiled = re.compile(expression)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise refuse(show(text), wanted, f"write {_nearest_version(compiled, text) or example}")
        return text

    return check


def _nearest_version(compiled: re.Pattern[str], text: str) -> str | None:
    """Return the version with the leading `v` added or removed if that is valid, else None."""
    near = text[1:] if text.startswith("v") else f"v{text}"
    return near if compiled.fullmatch(near) else None
