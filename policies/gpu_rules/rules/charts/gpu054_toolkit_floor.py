"""Rule GPU054: the NVIDIA Container Toolkit must not be older than the configured version."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...facts.floors import Software, below, parse
from ..each import each_release
from ..example import Example, operator_release
from ..helm import ChartRelease
from ..rule import Finding, Rule
from ..twin import CHART_VALUES
from ..unknown import at
from .operator import part_version


def _check_toolkit(chart: ChartRelease, context: Context) -> Iterator[Finding]:
    if at(chart.values, "toolkit", "enabled") is False:
        return
    version, path = part_version(chart, "toolkit")
    have, least = parse(version), parse(context.toolkit_floor)
    if have and least and have < least:
        border = below(Software.TOOLKIT, version)
        yield Finding(
            path=path,
            found=version[:40],
            wanted=f"{context.toolkit_floor} or later",
            cure=f"Install that version: {border}."
            if border
            else "Install that version or a later one: the setting toolkitFloor requires it.",
        )


RULE = Rule(
    id="GPU054",
    title="The container toolkit is new enough",
    severity=Severity.MANDATORY,
    check=each_release(_check_toolkit),
    why="With a toolkit that is older than the newest security bulletin, a container can take "
    "over its host. The setting toolkitFloor changes the minimum version.",
    source="NVIDIA's security bulletins 5582 to 5850 (gpu_rules/facts/security_floors.json)",
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release("toolkit: {version: v1.19.1}"),
    ("version: v1.19.1", "version: v1.17.7-ubuntu20.04"),
)
