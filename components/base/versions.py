"""Version numbers, each in the form that its program uses."""

from __future__ import annotations

import re
from collections.abc import Callable

from policies.faults import refuse, show


def pattern(expression: str, wanted: str, example: str) -> Callable[[str], str]:
    """A validator: the text matches, or the error says which form is wanted."""
    compiled = re.compile(expression)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise refuse(show(text), wanted, f"write {_nearest(compiled, text) or example}")
        return text

    return check


def _nearest(compiled: re.Pattern[str], text: str) -> str | None:
    """The same version with or without its `v`, where only that is wrong."""
    near = text[1:] if text.startswith("v") else f"v{text}"
    return near if compiled.fullmatch(near) else None
