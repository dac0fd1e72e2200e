"""Helm values in the stack file: real keys are accepted, useless and harmful ones refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_cluster.base import keys
from gpu_cluster.base.model import Model
from gpu_cluster.charts import value_table
from gpu_cluster.charts.extra_values import merged
from gpu_cluster.charts.value_check import check
from gpu_cluster.charts.value_types import TYPES, type_of
from gpu_cluster.loading.loader import load
from gpu_cluster.loading.stack_file import load_stack_file
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.faults import ConfigError
from tests.proofs.platform.chart_folders import CHARTS, FOLDERS, texts, values, version
from tests.proofs.platform.ways import WAYS, declared
from tests.resolved import platform_of

COMMENT = re.compile(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", re.DOTALL)
BAD = sorted((Path(__file__).parent / "fixtures" / "bad_settings").glob("*.yaml"))
SERIES = [(chart, version) for chart, known in value_table.SERIES.items() for version in known]


def test_there_are_at_least_50_bad_settings() -> None:
    assert len(BAD) >= 50


@pytest.mark.bad_setting
@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_setting_is_refused_with_its_exact_message(path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load_stack_file(path)
    assert f"{raised.value}\n" == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_setting_is_the_only_mistake_of_its_file(path: Path) -> None:
    """Each bad setting must be refused for its own fault, not for another one in the file."""
    text = path.with_suffix(".txt").read_text(encoding="utf-8")
    places = re.findall(r"^ +\d+\. (\S+)", text, re.MULTILINE)
    assert len({place.rsplit(".", 1)[0] for place in places}) == 1


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_key_of_a_charts_values_is_accepted(folder: Path, chart: str) -> None:
    table = value_table.table(chart, version(folder / chart))
    assert list(check(table, values(folder / chart), (), decided=False)) == []


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_every_path_that_a_template_reads_is_known(folder: Path, chart: str) -> None:
    table = value_table.table(chart, version(folder / chart))
    read = {
        path
        for template in (folder / chart / "templates").rglob("*.*")
        for path in re.findall(
            r"\$?\.Values\.((?:\w+\.)*\w+)", COMMENT.sub("", template.read_text())
        )
    }
    assert len(read) >= 5
    unknown = [
        path
        for path in sorted(read)
        if path not in table.values
        and path not in table.dead
        and not table.leads_on(path)
        and not any(path.startswith(f"{known}.") for known in table.values)
    ]
    assert unknown == []


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("folder", [folder for folder in FOLDERS if folder.id == "real"])
def test_no_path_of_the_table_is_made_up(folder: Path, chart: str) -> None:
    """Each path must exist in the chart's values or templates; fake charts have only some paths."""
    table = value_table.table(chart, version(folder / chart))
    paths = set(_paths(values(folder / chart)))
    words = set(re.findall(r"[\w-]+", " ".join(texts(folder / chart))))
    made_up = [
        path
        for path in table.values
        if path not in paths and not set(path.split(".")) <= words | set(paths)
    ]
    assert made_up == []


def _paths(tree: dict[str, Any], prefix: str = "") -> list[str]:
    result = []
    for key, value in tree.items():
        path = f"{prefix}{key}"
        result.append(path)
        if isinstance(value, dict):
            result += _paths(value, f"{path}.")
    return result


@pytest.mark.parametrize(("chart", "series"), SERIES)
def test_every_type_of_a_table_is_known_and_no_path_is_both_read_and_dead(
    chart: str, series: str
) -> None:
    table = value_table.table(chart, f"{series}.0")
    for value in table.values.values():
        assert type_of(value.type).wanted
    assert not table.values.keys() & table.dead.keys()
    assert not table.values.keys() & table.later.keys()
    inner = [path for path in table.values if any(p.startswith(f"{path}.") for p in table.values)]
    assert inner == []


@pytest.mark.parametrize(("chart", "series"), SERIES)
def test_a_setting_that_decides_a_value_is_there(chart: str, series: str) -> None:
    for value in value_table.table(chart, f"{series}.0").values.values():
        if value.setting:
            steps = tuple(value.setting.replace("[]", "").split("."))
            assert keys.field_at(ClusterSettings, steps) is not None, value.setting


@pytest.mark.parametrize(
    ("word", "good", "bad"),
    [
        ("truth", [True, False], ["true", "false", 1, None]),
        ("text", ["", "595.91.07"], [595.91, True, None, ["x"]]),
        ("path", ["/", "/run/nvidia", ""], ["run/nvidia", 1]),
        ("whole", [0, 7], ["7", -1, 1.5, True]),
        ("number", [0, 1, 1.5], ["1", -1, True]),
        ("port", [1, 65535], [0, 65536, "80"]),
        ("share", [1, "25%", "1"], ["a quarter", 1.5, "-1"]),
        ("duration", ["15s", "1h30m"], [15, "15", "15 s"]),
        ("texts", [[], ["a"]], ["a", [1]]),
        ("names", [[], ["a"]], [[{"name": "a"}]]),
        ("references", [[], [{"name": "a"}]], [["a"], [{"names": "a"}]]),
        ("objects", [[{}]], [{}, ["a"]]),
        ("object", [{}], [[], "a"]),
        ("strings", [{"a": "b"}], [{"a": 1}, ["a"]]),
        ("truths", [{"a": True}], [{"a": "true"}]),
        ("env", [[{"name": "A", "value": "1"}]], [[{"name": "A", "value": 1}], {"A": "1"}]),
        ("resources", [{"limits": {"cpu": 1}}], [{"cpu": 1}, {"limit": {}}]),
        ("tolerations", [[{"operator": "Exists"}]], [[{"operators": "Exists"}], {}]),
        ("probe", [{"periodSeconds": 1}], [{"period": 1}]),
        ("nothing", [[]], [{}, ["a"]]),
        ("null", [None], [0, ""]),
    ],
)
def test_a_type_holds_what_helm_and_kubernetes_take(
    word: str, good: list[Any], bad: list[Any]
) -> None:
    assert all(TYPES[word].holds(value) for value in good)
    assert not any(TYPES[word].holds(value) for value in bad)


def test_every_type_is_tested() -> None:
    tested = test_a_type_holds_what_helm_and_kubernetes_take.pytestmark[0].args[1]
    assert {case[0] for case in tested} == set(TYPES)


def test_extra_values_are_laid_over_ours_and_keep_our_environment() -> None:
    ours = {"toolkit": {"enabled": True, "env": [{"name": "A", "value": "1"}]}, "list": [1]}
    extra = {"toolkit": {"env": ({"name": "B", "value": "2"},)}, "list": (2,)}
    assert merged(ours, extra) == {
        "toolkit": {
            "enabled": True,
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
        "list": [2],
    }


def test_extra_values_are_frozen_hashable_and_written_as_given() -> None:
    text = (
        "{version: v1, kubernetes: {context: c}, platform: gpu-operator, pools: [{name: a, nodes:"
        " [n], gpusPerNode: 1}], gpuOperator: {extraValues: {gfd: {enabled: false},"
        " extraObjects: [{kind: ConfigMap}]}}}"
    )
    cluster = load(yaml.safe_load(text))
    extra = cluster.gpu_operator.extra_values
    assert isinstance(hash(cluster), int)
    with pytest.raises(TypeError):
        extra["gfd"]["enabled"] = True
    assert cluster.model_dump(mode="json")["gpu_operator"]["extra_values"] == {
        "gfd": {"enabled": False},
        "extraObjects": [{"kind": "ConfigMap"}],
    }


def test_no_setting_of_the_stack_file_is_called_as_a_dead_value() -> None:
    """A suggested replacement must be a key that the stack file accepts."""
    for chart, series in SERIES:
        for dead in value_table.table(chart, f"{series}.0").dead.values():
            for word in re.findall(r"\b(devicePlugin\.[\w.]+\w)", dead.instead):
                model: type[Model] | None = keys.model_at(
                    ClusterSettings, tuple(word.split(".")[:-1])
                )
                assert model is not None
                assert word.split(".")[-1] in keys.fields(model), word


def nulls(value: Any, path: str = "") -> list[str]:
    """Return the paths of all nulls in a value."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in nulls(item, f"{path}.{key}")]
    if isinstance(value, list | tuple):
        return [found for i, item in enumerate(value) for found in nulls(item, f"{path}[{i}]")]
    return [path] if value is None else []


@pytest.mark.parametrize("way", WAYS)
def test_no_value_that_the_program_writes_is_null(way: str) -> None:
    """Pulumi's Kubernetes plugins before 4.30 drop nulls; later ones delete the chart's default."""
    cluster = load(declared("test", way))
    assert nulls(platform_of(cluster).values()) == []
