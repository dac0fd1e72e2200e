"""Changes of a chart's version that the makers support: which ones, and how they are rendered."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import yaml

from gpu_cluster.charts.value_table import is_known
from gpu_cluster.loading.loader import load
from gpu_rules.facts.transitions import Verdict, histories, judge
from lab.helm import Helm
from tests.proofs.platform.chart_folders import REAL
from tests.proofs.platform.clusters import chart_of

Json = dict[str, Any]
SEED = "GPU_CLUSTER_TRANSITIONS_SEED"
"""Environment variable that chooses the sample of a default run."""
SAMPLE = 12
"""Number of transitions that a default run takes to a real API server."""
SECTIONS = {
    "gpu-operator": ("gpu-operator", "gpuOperator"),
    "nvidia-device-plugin": ("device-plugin", "devicePlugin"),
    "dra-driver-nvidia-gpu": ("dra", "dra"),
}
"""Platform and section of the stack file that deploy a chart."""


@dataclass(frozen=True)
class Pair:
    """A change of a chart from one version to another."""

    chart: str
    was: str
    now: str

    def __str__(self) -> str:
        """Return the name of the pair in the names of tests."""
        return f"{self.chart} {self.was} to {self.now}"

    @property
    def is_back(self) -> bool:
        """Return whether the change goes to the older version."""
        position = histories()[self.chart].position
        return position(self.now) < position(self.was)


def _newest(chart: str) -> list[str]:
    """Return the newest version of each series whose chart was read."""
    newest: dict[str, str] = {}
    history = histories()[chart]
    for version, release in history.releases.items():
        if release.published:
            newest[history.series(version)] = version.removeprefix("v")
    return [newest[series] for series in history.order if series in newest]


def pairs() -> list[Pair]:
    """Return the transitions that are run: all have one step, and their makers support them."""
    made: list[Pair] = []
    operator = histories()["gpu-operator"].releases
    releases = [version for version, release in operator.items() if release.published]
    made += [Pair("gpu-operator", *pair) for pair in pairwise(releases)]
    for chart in ("nvidia-device-plugin", "node-feature-discovery"):
        series = _newest(chart)
        made += [Pair(chart, *pair) for pair in pairwise(series)]
        made.append(Pair(chart, series[0], series[-1]))
        if chart == "nvidia-device-plugin":
            made += [Pair(chart, now, was) for was, now in pairwise(series)]
            made.append(Pair(chart, series[-1], series[0]))
            patched = (("0.17.0", "0.17.4"), ("0.18.0", "0.18.2"), ("0.19.0", "0.19.3"))
            made += [Pair(chart, *pair) for pair in patched]
    dra = "dra-driver-nvidia-gpu"
    made += [Pair(dra, *pair) for pair in (("25.12.0", "0.4.0"), ("25.12.0", "0.4.1"))]
    made.append(Pair(dra, "0.4.0", "0.4.1"))
    return [
        pair for pair in made if judge(pair.chart, pair.was, pair.now).verdict is Verdict.SUPPORTED
    ]


def sample(every: list[Pair]) -> set[Pair]:
    """Return the transitions that a run takes to an API server; all of them with FULL=1."""
    if os.environ.get("FULL") == "1":
        return set(every)
    return set(Random(os.environ.get(SEED, "1")).sample(every, SAMPLE))  # noqa: S311


def folder(chart: str, version: str) -> Path:
    """Return the folder of a chart's version; it may not exist."""
    assert REAL is not None
    return REAL / f"{chart}-{version}"


def values(chart: str, version: str) -> tuple[str, Json]:
    """Return the namespace and the values with which a stack deploys a chart's version."""
    if chart not in SECTIONS:
        return chart, {}
    platform, section = SECTIONS[chart]
    known = {} if is_known(chart, version) else {"unknownVersion": True}
    declared = load(
        {
            "version": "v1",
            "kubernetes": {"context": "c"},
            "platform": platform,
            "pools": [{"name": "a100", "nodes": ["gpu-[1-4]"], "gpusPerNode": 8}],
            section: {"version": version, **known},
        }
    )
    _, _, namespace, made = chart_of(declared)
    return namespace, made


def rendered(helm: Helm, pair_chart: str, version: str, more: Json | None = None) -> list[Json]:
    """Return the objects of a chart's version, without those of hooks.

    Args:
        more: Value paths with values that are set in addition.
    """
    namespace, made = values(pair_chart, version)
    for path, value in (more or {}).items():
        made = _with(made, path.split("."), value)
    objects = helm.render(folder(pair_chart, version), made, namespace, pair_chart)
    return [item for item in objects if not _is_hook(item)]


def _is_hook(item: Json) -> bool:
    return "helm.sh/hook" in (item["metadata"].get("annotations") or {})


def _with(tree: Json, steps: list[str], value: Any) -> Json:
    head, *rest = steps
    below = tree.get(head)
    inner = _with(dict(below) if isinstance(below, dict) else {}, rest, value) if rest else value
    return {**tree, head: inner}


def definitions(chart: str, version: str) -> dict[str, Json]:
    """Return the CustomResourceDefinitions in the folders `crds` of a chart and its subcharts."""
    return {
        item["metadata"]["name"]: item
        for path in sorted(folder(chart, version).rglob("crds/*.yaml"))
        for item in yaml.safe_load_all(path.read_text())
        if item
    }
