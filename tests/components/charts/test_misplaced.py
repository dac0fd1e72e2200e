"""Advice for Helm values at paths that the chart does not read."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_cluster.charts.misplaced import cure
from gpu_cluster.charts.value_table import table

OPERATOR, PLUGIN = ("gpu-operator", "v26.7.0"), ("nvidia-device-plugin", "0.20.0")


@pytest.mark.promise(
    "A value in the wrong place of extraValues is refused with the place where it belongs."
)
@pytest.mark.parametrize(
    ("chart", "path", "value", "expected"),
    [
        (OPERATOR, "manager", {"env": []}, "write driver.manager"),
        (OPERATOR, "validator.enabled", True, "remove it: validator has no such value"),
        (OPERATOR, "hostPaths.toolkitInstallDir", "/opt", "write toolkit.installDir"),
        (OPERATOR, "toolkit.toolkit", None, "remove it"),
        (OPERATOR, "defaultRuntime", "x", "remove it; the operator asks each node"),
        (OPERATOR, "migStrategy", "single", "write gpuOperator.migStrategy of the stack file"),
        (OPERATOR, "dcgmexporter", {}, 'write "dcgmExporter"'),
        (OPERATOR, "nfd.enable", True, 'write "enabled"'),
        (PLUGIN, "nodeselector", {}, 'write "nodeSelector"'),
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
        if re.fullmatch(r"write [\w.-]+(,? or [\w.-]+)*", advice):
            for path in re.split(r",? or ", advice.removeprefix("write ")):
                assert path in known.values or known.leads_on(path), advice
