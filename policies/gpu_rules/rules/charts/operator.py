"""Helm releases of the GPU Operator."""

from __future__ import annotations

from ...facts.parts import operator_part
from ..helm import ChartRelease
from ..unknown import UNKNOWN, at, text


def part_version(chart: ChartRelease, component: str) -> tuple[str, str]:
    """Return the version of a component that a release installs, and the path that decides it.

    The version is the release's value for the component, else the default of the chart's version.
    It is empty if neither is known.

    Args:
        component: Section of the chart's values, such as `driver`.
    """
    declared_version = at(chart.values, component, "version")
    if declared_version is UNKNOWN:
        return "", f"values.{component}.version"
    if declared_version:
        return text(declared_version), f"values.{component}.version"
    return operator_part(chart.version or "", component), "version"
