"""Rules that objects of the platform's chart break are found before a run creates anything."""

from __future__ import annotations

import os
from typing import Any

import pytest

from gpu_cluster.desired.resolve import Desired, resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.release.judged import broken_rules, release_inputs
from gpu_cluster_lab import toolchain
from gpu_rules.charts import PLUGIN
from tests.fixtures.documents import stack_document
from tests.proofs.platform.chart_folders import FAKE_CHARTS

HALF = {"resources": {"limits": {"nvidia.com/gpu": "500m"}}}


@pytest.fixture(autouse=True)
def _plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = toolchain.ensure(PLUGIN)[PLUGIN]
    monkeypatch.setenv("PATH", f"{tool.path.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GPU_CHARTS", str(FAKE_CHARTS))


def broken(**sections: Any) -> list[str]:
    desired: Desired = resolve(load(stack_document(**sections)), "dev")
    return list(broken_rules(release_inputs(desired.platform, desired.charts), desired.rules))


def test_an_object_of_the_chart_that_breaks_a_rule_is_named_with_its_release() -> None:
    first, *_ = broken(devicePlugin=HALF)
    assert first.startswith("GPU001 GPU amounts are whole numbers: DaemonSet nvidia-device-plugin/")
    assert "of release nvidia-device-plugin" in first


@pytest.mark.parametrize("platform", ["device-plugin", "gpu-operator", "dra"])
def test_the_vendors_charts_break_no_rule(platform: str) -> None:
    assert broken(platform=platform) == []
