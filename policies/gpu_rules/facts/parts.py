"""Versions of the components that the GPU Operator's Helm chart installs by default."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("chart_parts.json")


@cache
def operator_charts() -> dict[str, dict[str, str]]:
    """Return the parts of each version of the GPU Operator's chart, by the chart's version."""
    document: dict[str, dict[str, dict[str, str]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document["gpu-operator"]


def operator_part(chart: str, path: str) -> str:
    """Return the default version of a component of the GPU Operator's chart; empty if not known.

    Args:
        chart: Version of the chart, such as `v26.7.0`.
        path: Section of the chart's values, such as `driver`.
    """
    return operator_charts().get(chart, {}).get(path, "")
