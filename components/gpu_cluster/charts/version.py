"""Validator for chart versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field, StrictBool, ValidationInfo

from gpu_cluster.base.versions import pattern
from gpu_cluster.charts.value_table import is_known, known_versions
from gpu_rules.faults import refuse, show

UnknownVersion = Annotated[
    StrictBool,
    Field(
        description="true or false: accept a version whose values this program does not know",
        examples=["false"],
    ),
]
"""Consent to a chart version without a table of values; declared before the field `version`."""


def chart_version(chart: str, example: str) -> Callable[[str, ValidationInfo], str]:
    """Return a validator that accepts versions of a chart whose values are known.

    With the section's `unknownVersion: true` it accepts every version. The values are then checked
    against the chart's own values and templates before a change (`gpu_cluster.charts.own_values`).
    """
    start = "v" if example.startswith("v") else ""
    form = pattern(
        rf"{start}\d+\.\d+\.\d+(-[a-z0-9.]+)?", f"a chart version such as {example}", example
    )

    def check(text: str, info: ValidationInfo) -> str:
        form(text)
        if not info.data.get("unknown_version") and not is_known(chart, text):
            raise refuse(
                show(text),
                f"a version whose values are known: {known_versions(chart)}",
                f'write {example}; to use {text} all the same, add "unknownVersion: true": then '
                "your values are checked against the chart's own",
            )
        return text

    return check
