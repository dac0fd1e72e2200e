"""Releases of the GPU Operator."""

from __future__ import annotations

from ...facts.parts import operator_part
from ..helm import GPU_OPERATOR, ChartRelease, release
from ..rule import Subject
from ..unknown import UNKNOWN, at, text


def operator_release(subject: Subject) -> ChartRelease | None:
    chart = release(subject)
    return chart if chart and chart.chart == GPU_OPERATOR else None


def part_version(chart: ChartRelease, part: str) -> tuple[str, str]:
    """Return the version of a part that a release brings, and the place that decides it.

    That is its value, else the default of the chart's version. The version is empty where neither
    is known.
    """
    given = at(chart.values, part, "version")
    if given is UNKNOWN:
        return "", f"values.{part}.version"
    if given:
        return text(given), f"values.{part}.version"
    return operator_part(chart.version or "", part), "version"
