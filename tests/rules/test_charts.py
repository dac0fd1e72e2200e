"""A Helm release is judged by the objects that its chart renders, where it is on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import toolchain
from policies import charts
from policies.rules import UNKNOWN, Context

TEMPLATE = """
apiVersion: v1
kind: Pod
metadata:
  name: {{ .Release.Name }}-worker
spec:
  containers:
    - name: cuda
      image: cuda:13.0
      resources:
        limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: {{ .Values.gpus | quote }}}
"""


@pytest.fixture(autouse=True)
def plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = toolchain.ensure(charts.PLUGIN)[charts.PLUGIN]
    monkeypatch.setenv("PATH", f"{tool.path.parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    folder = tmp_path / "workers"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: workers\nversion: 1.0.0\n")
    (folder / "values.yaml").write_text("gpus: 1\n")
    (folder / "templates" / "worker.yaml").write_text(TEMPLATE)
    return folder


def release(folder: Path, values: Any = None, **fields: Any) -> dict[str, Any]:
    own = {} if values is None else {"values": values}
    return {"name": "train", "namespace": "team-a", "chart": str(folder), **own, **fields}


def test_the_charts_objects_are_judged_with_the_releases_values(chart: Path) -> None:
    assert charts.judge_rendered(release(chart), Context()) == []
    (found,) = charts.judge_rendered(release(chart, {"gpus": "500m"}), Context())
    assert (found.rule.id, found.subject) == (
        "GPU001",
        "Pod team-a/train-worker of release train",
    )


def test_the_namespace_of_the_release_counts(chart: Path) -> None:
    (manifest,) = charts.rendered(release(chart))
    assert manifest["metadata"] == {"name": "train-worker", "namespace": "team-a"}


@pytest.mark.parametrize("values", [{"gpus": UNKNOWN}, {"a": [UNKNOWN]}, UNKNOWN])
def test_unknown_values_are_left_to_the_rules_on_values(chart: Path, values: Any) -> None:
    assert charts.rendered(release(chart, values)) == ()


def test_a_chart_from_a_repository_is_not_fetched(chart: Path) -> None:
    assert charts.rendered(release(chart, repositoryOpts={"repo": "https://x.example.com"})) == ()
    assert charts.rendered({"chart": "workers"}) == charts.rendered({}) == ()


def test_a_chart_that_cannot_be_rendered_is_left_to_the_deployment(chart: Path) -> None:
    (chart / "templates" / "worker.yaml").write_text("{{ fail 1 }")
    assert charts.rendered(release(chart, {"broken": True})) == ()


def test_a_relative_chart_is_below_the_folder_that_the_engine_started_in(
    chart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", str(chart.parent))
    assert charts.chart_folder("./workers") == chart
    assert charts.chart_folder("./others") is None
