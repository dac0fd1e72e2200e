"""The version of each default is the newest that the committed facts know."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_cluster.charts.digests import chart_digest
from gpu_cluster.charts.value_table import is_known
from gpu_cluster.settings.device_plugin import DevicePluginSettings
from gpu_cluster.settings.dra import DraSettings
from gpu_cluster.settings.gpu_operator import GpuOperatorSettings
from gpu_cluster.settings.monitoring import MonitoringSettings
from gpu_rules.facts.floors import of_images
from gpu_rules.facts.parts import operator_charts, operator_part
from gpu_rules.facts.transitions import histories

DEFAULTS = {
    "gpu-operator": GpuOperatorSettings().version,
    "nvidia-device-plugin": DevicePluginSettings().version,
    "dra-driver-nvidia-gpu": DraSettings().version,
}


@pytest.mark.promise("Each default version of a chart is the newest of the committed facts.")
@pytest.mark.parametrize("chart", DEFAULTS)
def test_a_charts_default_is_the_newest_release_of_the_facts(chart: str) -> None:
    start = "v" if DEFAULTS[chart].startswith("v") else ""
    versions = (f"{start}{known.removeprefix('v')}" for known in histories()[chart].releases)
    newest = [version for version in versions if is_known(chart, version)][-1]
    assert DEFAULTS[chart] == newest


def test_the_default_exporter_is_that_of_the_newest_operator_and_has_no_known_weakness() -> None:
    image = MonitoringSettings().exporter_image
    newest = list(operator_charts())[-1]
    assert newest == DEFAULTS["gpu-operator"]
    assert image.rpartition(":")[2] == operator_part(newest, "dcgmExporter")
    assert list(of_images((image,))) == []


def test_the_parts_of_the_default_operator_are_those_of_the_default_plugin() -> None:
    newest = DEFAULTS["gpu-operator"]
    assert operator_part(newest, "devicePlugin") == f"v{DEFAULTS['nvidia-device-plugin']}"
    assert operator_part(newest, "draDriver") == f"v{DEFAULTS['dra-driver-nvidia-gpu']}"


def test_the_page_names_the_default_charts_without_a_known_digest() -> None:
    """None of their makers' digests was found; `make images` says so, too."""
    page = Path(__file__).resolve().parents[3] / "docs/reference/platforms.md"
    assert [chart for chart, version in DEFAULTS.items() if chart_digest(chart, version)] == []
    plugin = DEFAULTS["nvidia-device-plugin"]
    assert f"device plugin {plugin}, GPU Operator, DRA driver. `make images`" in page.read_text()
