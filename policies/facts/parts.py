"""The parts that a chart brings where its values name no other version."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_name("chart_parts.json")


@cache
def _table() -> dict[str, dict[str, str]]:
    document: dict[str, dict[str, dict[str, str]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document["gpu-operator"]


def operator_part(chart: str, path: str) -> str:
    """Return the version of one part of the GPU Operator's chart; empty where it isn't known.

    Args:
        chart: the chart's version, such as ``v26.7.0``.
        path: the section of its values, such as ``driver``.
    """
    return _table().get(chart, {}).get(path, "")
