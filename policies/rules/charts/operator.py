"""Releases of the GPU Operator."""

from __future__ import annotations

from policies.rules.helm import GPU_OPERATOR, ChartRelease, release
from policies.rules.rule import Subject


def operator_release(subject: Subject) -> ChartRelease | None:
    chart = release(subject)
    return chart if chart and chart.chart == GPU_OPERATOR else None
