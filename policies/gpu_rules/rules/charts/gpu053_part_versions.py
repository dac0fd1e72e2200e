"""Rule GPU053: driver, toolkit and device plugin must have fixed versions in the chart's values."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_release
from ..example import Example, operator_release
from ..helm import ChartRelease
from ..rule import Declared, Finding, Rule
from ..twin import CHART_VALUES
from ..unknown import UNKNOWN, at, text

_FIXED = re.compile(r"v?[0-9]|sha256:")

_VERSIONED = ("driver", "toolkit", "devicePlugin", "dcgmExporter", "gfd", "migManager")


def _parts_pinned(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    for component in _VERSIONED:
        version = at(chart.values, component, "version")
        if version is None or version is UNKNOWN:
            continue
        written = text(version)
        if not _FIXED.match(written):
            yield Finding(
                path=f"values.{component}.version",
                found=written[:40] or "a value that is no version",
                wanted="an exact version or a digest",
                cure="Remove the value to use the chart's version, or write an exact version.",
            )


RULE = Rule(
    id="GPU053",
    title="Driver, toolkit and plugin have fixed versions",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    check=each_release(_parts_pinned),
    why="A tag such as `latest` changes the driver under running workloads whenever a node "
    "pulls the image again.",
    source="gpu-operator v26.7.0 deployments/gpu-operator/values.yaml",
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release("driver: {version: 595.91.07}"),
    ("version: 595.91.07", "version: latest"),
)
