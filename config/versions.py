"""Version numbers, each in the form that its chart or driver uses."""

from __future__ import annotations

import re
from collections.abc import Callable

from config.problem import refuse, show
from config.value_table import UnknownVersion, check_version


def pattern(expression: str, wanted: str, example: str) -> Callable[[str], str]:
    """A validator: the text matches, or the error says which form is wanted."""
    compiled = re.compile(expression)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise refuse(show(text), wanted, f"write {_nearest(compiled, text) or example}")
        return text

    return check


def chart_version(chart: str, example: str) -> Callable[[str], str]:
    """A validator: a version of the chart whose values are known."""
    start = "v" if example.startswith("v") else ""
    form = pattern(rf"{start}\d+\.\d+\.\d+", f"a chart version such as {example}", example)

    def check(text: str) -> str:
        form(text)
        try:
            check_version(chart, text)
        except UnknownVersion as known:
            raise refuse(
                show(text),
                f"a version whose values are known: {known}",
                f"write {example}",
            ) from None
        return text

    return check


def _nearest(compiled: re.Pattern[str], text: str) -> str | None:
    """The same version with or without its `v`, where only that is wrong."""
    near = text[1:] if text.startswith("v") else f"v{text}"
    return near if compiled.fullmatch(near) else None
