"""Helm charts that tests use: fake charts, and real charts if `GPU_CHARTS` names their folder."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.settings.gpu_operator import GpuOperatorSettings

ROOT = Path(__file__).resolve().parents[3]
FAKE_CHARTS = ROOT / "embedded" / "gpu_cluster_lab" / "simulator" / "charts"
CHARTS = ("gpu-operator", "nvidia-device-plugin", "dra-driver-nvidia-gpu", "hami")

_REAL = os.environ.get("GPU_CHARTS", "")
# Folder of the real charts; None if `GPU_CHARTS` is empty or names the folder of fake charts.
REAL = Path(_REAL).resolve() if _REAL and Path(_REAL).resolve() != FAKE_CHARTS else None

FOLDERS = [
    pytest.param(FAKE_CHARTS, id="fakes"),
    pytest.param(
        REAL,
        id="real",
        marks=pytest.mark.skipif(REAL is None, reason="GPU_CHARTS names no folder of charts"),
    ),
]


def version(chart: Path) -> str:
    """Return a chart's version as a sortable value.

    A chart from a source tree ("-devel") counts as the newest.
    """
    version_text = str(yaml.safe_load((chart / "Chart.yaml").read_text())["version"])
    return GpuOperatorSettings().version if version_text.endswith("-devel") else version_text


def texts(chart: Path) -> list[str]:
    """Return values and templates of a chart and its subcharts, including packed ones."""
    files = [*chart.rglob("templates/*"), *chart.rglob("values.yaml")]
    read = [path.read_text() for path in files if path.is_file()]
    for packed in chart.rglob("charts/*.tgz"):
        with tarfile.open(packed) as archive:
            members = (archive.extractfile(member) for member in archive if member.isfile())
            read += [member.read().decode() for member in members if member is not None]
    return read


def values(chart: Path) -> dict[str, Any]:
    """Return the text of a chart's values.yaml."""
    result: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    return result
