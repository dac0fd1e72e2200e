"""The rules check a Helm release by the objects that its local chart renders."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gpu_cluster_lab import toolchain
from gpu_rules import charts
from gpu_rules.rules import UNKNOWN, Context

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
    (violation,) = charts.judge_rendered(release(chart, {"gpus": "500m"}), Context())
    assert (violation.rule.id, violation.subject) == (
        "GPU001",
        "Pod team-a/train-worker of release train",
    )


def test_the_namespace_of_the_release_counts(chart: Path) -> None:
    (manifest,) = charts.rendered(release(chart))
    assert manifest["metadata"] == {"name": "train-worker", "namespace": "team-a"}


def test_a_release_without_a_name_is_rendered_whatever_its_folder_is_called(chart: Path) -> None:
    (manifest,) = charts.rendered({"chart": str(chart.rename(chart.with_name("My_Workers")))})
    assert manifest["metadata"] == {"name": "my-workers-worker", "namespace": "default"}


@pytest.mark.parametrize("values", [{"gpus": UNKNOWN}, {"a": [UNKNOWN]}, UNKNOWN])
def test_unknown_values_are_left_to_the_rules_on_values(chart: Path, values: Any) -> None:
    assert charts.rendered(release(chart, values)) == ()


def test_a_chart_from_a_repository_is_not_fetched(chart: Path) -> None:
    assert charts.rendered(release(chart, repositoryOpts={"repo": "https://x.example.com"})) == ()
    assert charts.rendered({"chart": "workers"}) == charts.rendered({}) == ()


def test_a_chart_that_cannot_be_rendered_says_why(chart: Path) -> None:
    (chart / "templates" / "worker.yaml").write_text('{{ fail "no queue" }}')
    with pytest.raises(charts.NotRendered, match="no queue"):
        charts.rendered(release(chart))


PROGRAMS_THAT_ARE_NO_PLUGIN = {
    "ends": ("exit 1", "did not start: it said nothing"),
    "another": ("echo usage: plugin", "did not start: usage: plugin"),
    "nobody listens": ("echo 1; exec sleep 60", "failed to connect"),
    "silent": ("exec sleep 60", "did not start: it said nothing"),
}


@pytest.mark.parametrize(
    ("script", "why"), PROGRAMS_THAT_ARE_NO_PLUGIN.values(), ids=PROGRAMS_THAT_ARE_NO_PLUGIN
)
def test_a_plugin_that_does_not_serve_is_no_chart_without_objects(
    chart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    program = tmp_path / charts.PLUGIN
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(charts, "_LIMIT", 0.5)
    with pytest.raises(charts.NotRendered, match=why):
        charts.rendered(release(chart))


def test_without_the_plugin_it_is_said(
    chart: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PULUMI_HOME", str(tmp_path))
    with pytest.raises(charts.NotRendered, match="neither on PATH nor"):
        charts.rendered(release(chart))


def test_the_plugin_leaves_no_file(chart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = chart.parent / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    assert charts.rendered(release(chart))
    assert list(scratch.iterdir()) == []


def test_a_relative_chart_is_below_the_folder_that_the_engine_started_in(
    chart: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PWD", str(chart.parent))
    assert charts.chart_folder("./workers") == chart
    assert charts.chart_folder("./others") is None
