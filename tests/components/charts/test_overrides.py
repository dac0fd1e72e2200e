"""Variables and arguments of an operand that override a setting of the stack file are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_cluster.base import keys
from gpu_cluster.charts.value_table import SERIES, Value, table
from gpu_cluster.settings.declared_cluster import ClusterSettings
from tests.proofs.advice.follow import faults_of, follow

TEXTS = {"truth": "true", "path": "/run/other", "duration": "15s", "text": "volume-mounts"}
"""A text for each type that has no choice of texts."""
OVERRIDES = [
    pytest.param(
        place, value, id=value.path, marks=pytest.mark.clusters("override", f"value {value.path}")
    )
    for place, by_name in table("gpu-operator", "v26.7.0").overrides.items()
    for value in by_name.values()
]


def declared(place: str, item: Any) -> dict[str, Any]:
    """Return a stack file whose operator has a list with one item at a path of its values."""
    values: Any = [item]
    for key in reversed(place.split(".")):
        values = {key: values}
    return {
        "version": "v1",
        "kubernetes": {"context": "gpu-cluster-test"},
        "pools": [{"name": "a100", "nodes": ["gpu-1"], "gpusPerNode": 8}],
        "platform": "gpu-operator",
        "gpuOperator": {"extraValues": values},
    }


def item_of(place: str, value: Value) -> Any:
    """Return a variable or an argument that overrides a setting."""
    name = value.path.partition("[")[2].removesuffix("]")
    text = TEXTS.get(value.type, value.type.rpartition("|")[2])
    if place.endswith(".env"):
        return {"name": name, "value": text}
    return f"--{name}={text}"


@pytest.mark.parametrize(("place", "value"), OVERRIDES)
def test_an_override_is_refused_and_its_cure_works(place: str, value: Value) -> None:
    document = declared(place, item_of(place, value))
    faults = faults_of(document)
    assert [fault.location[-1] for fault in faults] == [0]
    assert value.setting
    assert value.path in faults[0].wanted
    assert keys.field_at(ClusterSettings, tuple(value.setting.split("."))) is not None
    assert follow(document, faults[0], faults) == ""


def test_at_least_30_overrides_are_known_in_each_version_of_the_operator() -> None:
    for series in SERIES["gpu-operator"]:
        assert sum(map(len, table("gpu-operator", f"{series}.0").overrides.values())) >= 30


@pytest.mark.parametrize("argument", ["-mig-strategy=single", "--mig-strategy=single"])
def test_each_way_to_write_an_argument_is_read(argument: str) -> None:
    assert len(faults_of(declared("devicePlugin.args", argument))) == 1


@pytest.mark.parametrize(
    ("place", "item"),
    [
        ("devicePlugin.env", {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}),
        ("toolkit.env", {"name": "CONTAINERD_SOCKET", "value": "/run/k3s/containerd.sock"}),
        ("devicePlugin.args", "--v=4"),
    ],
)
def test_a_variable_that_no_setting_decides_is_accepted(place: str, item: Any) -> None:
    assert faults_of(declared(place, item)) == ()
