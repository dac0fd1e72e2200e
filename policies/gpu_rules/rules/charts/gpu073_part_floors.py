"""Rule GPU073: charts and the components that they install must have all security fixes."""

from __future__ import annotations

from collections.abc import Iterator

from ...context import Context, Severity
from ...facts.floors import Software, below, exporter, wanted
from ..each import each_release
from ..example import Example, operator_release
from ..helm import DEVICE_PLUGIN, GPU_OPERATOR, ChartRelease
from ..rule import Finding, Rule
from ..twin import CHART_VALUES
from ..unknown import at
from .operator import part_version

_CHARTS = {GPU_OPERATOR: Software.OPERATOR, DEVICE_PLUGIN: Software.DEVICE_PLUGIN}
_PARTS = {
    "devicePlugin": Software.DEVICE_PLUGIN,
    "migManager": Software.MIG_MANAGER,
    "dcgm": Software.DCGM,
    "dcgmExporter": Software.DCGM_EXPORTER,
}
_OFF_BY_DEFAULT = ("dcgm",)


def _check_floors(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    for software, version, path in _component_versions(chart):
        if border := below(software, version):
            yield Finding(
                path=path,
                found=f"{software} {version[:40]}",
                wanted=wanted(software, version, border),
                cure=f"Install that version: {border}.",
            )


def _component_versions(chart: ChartRelease) -> Iterator[tuple[Software, str, str]]:
    yield _CHARTS[chart.chart], chart.version or "", "version"
    if chart.chart != GPU_OPERATOR:
        return
    for section, software in _PARTS.items():
        enabled = at(chart.values, section, "enabled")
        if enabled is True or (enabled is None and section not in _OFF_BY_DEFAULT):
            version, path = part_version(chart, section)
            yield (
                software,
                exporter(version) if software is Software.DCGM_EXPORTER else version,
                path,
            )


RULE = Rule(
    id="GPU073",
    title="Charts and their components have the fixes of the security bulletins",
    severity=Severity.ADVISORY,
    check=each_release(_check_floors, _CHARTS),
    why="The components run with root rights on each GPU node. The bulletins name the versions "
    "in which others can misuse these rights.",
    source="NVIDIA's security bulletins 5582 to 5857 (gpu_rules/facts/security_floors.json)",
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release("migManager: {version: v0.12.2}"),
    ("version: v0.12.2", "version: v0.12.1"),
)
