"""Validator for chart versions."""

from __future__ import annotations

from collections.abc import Callable

from components.base.versions import pattern
from components.charts.value_table import UnknownVersion, check_version
from policies.faults import refuse, show


def chart_version(chart: str, example: str) -> Callable[[str], str]:
    """Return a validator that accepts only versions of a chart whose values are known."""
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
