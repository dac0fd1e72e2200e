"""Advice for Helm values at paths that the chart does not read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_cluster.base.document_cures import ONE_LEVEL_UP
from gpu_cluster.charts.misplaced import cure
from gpu_cluster.charts.value_table import table

OPERATOR, PLUGIN = ("gpu-operator", "v26.7.0"), ("nvidia-device-plugin", "0.20.0")


@pytest.mark.promise(
    "A value in the wrong place of extraValues is refused with the place where it belongs."
)
@pytest.mark.parametrize(
    ("chart", "path", "value", "expected"),
    [
        (OPERATOR, "manager", {"env": []}, "move it to extraValues.driver.manager"),
        (OPERATOR, "validator.enabled", True, "remove it: validator has no such value"),
        (
            OPERATOR,
            "hostPaths.toolkitInstallDir",
            "/opt",
            "move it to extraValues.toolkit.installDir",
        ),
        (OPERATOR, "toolkit.toolkit", None, "remove it"),
        (OPERATOR, "defaultRuntime", "x", "remove it: the operator asks each node"),
        (
            OPERATOR,
            "migStrategy",
            "single",
            'write gpuOperator.migStrategy: "single" and remove it here',
        ),
        (OPERATOR, "dcgmexporter", {}, 'rename it to "dcgmExporter"'),
        (OPERATOR, "nfd.enable", True, "write gpuOperator.nfd: true and remove it here"),
        (OPERATOR, "gfd.enable", True, 'rename it to "enabled"'),
        (OPERATOR, "gpu-operator", {"gfd": {}, "x": 1, "dcgm": {}}, ONE_LEVEL_UP),
        (OPERATOR, "values", {"operator": {"logging": {}}}, ONE_LEVEL_UP),
        (
            OPERATOR,
            "nodeFeatureDiscovery",
            {"enabled": False},
            "write gpuOperator.nfd: false and remove it here",
        ),
        (PLUGIN, "operator", {"tolerations": [{"operator": "Exists"}]}, "remove it"),
        (PLUGIN, "nodeselector", {}, 'rename it to "nodeSelector"'),
        (PLUGIN, "zzz", 1, "remove it"),
    ],
)
def test_the_whole_tree_of_values_is_searched(
    chart: tuple[str, str], path: str, value: Any, expected: str
) -> None:
    assert cure(table(*chart), path, value) == expected


@pytest.mark.parametrize("chart", [OPERATOR, PLUGIN])
def test_no_advice_names_a_path_that_the_chart_does_not_read(chart: tuple[str, str]) -> None:
    known = table(*chart)
    keys = {path.split(".")[-1] for path in known.values}
    for key in keys - {path.split(".")[0] for path in known.values}:
        advice = cure(known, key, "x")
        for path in re.findall(r"move it to extraValues\.([\w.-]+)", advice):
            assert path in known.values or known.leads_on(path), advice
