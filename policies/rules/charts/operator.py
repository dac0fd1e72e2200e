"""Releases of the GPU Operator."""

from __future__ import annotations

from policies.rules.helm import GPU_OPERATOR, ChartRelease, release
from policies.rules.rule import Subject


def operator_release(subject: Subject) -> ChartRelease | None:
    found = release(subject)
    return found if found and found.chart == GPU_OPERATOR else None
