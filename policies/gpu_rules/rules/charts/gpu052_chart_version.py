"""Rule GPU052: a Helm release of the GPU stack must have one exact chart version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...context import Context, Severity
from ..each import each_release
from ..example import Example, operator_release
from ..helm import GPU_CHARTS, ChartRelease
from ..rule import Declared, Finding, Rule
from ..twin import CHART_VALUES

_EXACT = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.+-]+)?")


def _chart_pinned(chart: ChartRelease, _: Context) -> Iterator[Finding]:
    if not (chart.local or chart.version is None or _EXACT.fullmatch(chart.version)):
        yield Finding(
            path="version",
            found=f"{chart.version[:40]}, a range" if chart.version else "none",
            wanted="one exact version of the chart, such as v26.7.0",
            cure="Write the exact version: otherwise a run may install another driver on all "
            "nodes.",
        )


RULE = Rule(
    id="GPU052",
    title="A chart of the GPU stack has an exact version",
    severity=Severity.ADVISORY,
    mandatory_if=Declared.CLUSTER,
    check=each_release(_chart_pinned, GPU_CHARTS),
    why="The version of the chart decides the versions of driver, toolkit and device plugin on "
    "every node. With a range, or without a version, Helm installs the newest version that "
    "the repository has at that time.",
    source="helm.sh/helm v3.18 pkg/repo/index.go; gpu-operator v26.7.0 Chart.yaml",
    whole=True,
)

TWIN = CHART_VALUES

EXAMPLE = Example.edited(
    operator_release(),
    ("version: v26.7.0", 'version: ">=v25.0.0"'),
)
