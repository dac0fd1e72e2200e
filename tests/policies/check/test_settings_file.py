"""Who has only the rules can write the settings: every key, a schema, and a cluster's pools."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from gpu_rules.check.context import ContextError, by_config, settings_of
from gpu_rules.command import main
from gpu_rules.parameters import PROPERTIES, RULE_FOLDER
from gpu_rules.rules import Context


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["settings", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.promise("`gpu-rules settings` prints a file with every setting, which it accepts.")
def test_the_complete_file_has_each_setting_and_is_accepted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(printed(capsys))
    settings = settings_of(file, trusted=True)
    assert settings.keys() == PROPERTIES.keys()
    del settings[RULE_FOLDER]
    file.write_text(yaml.safe_dump(settings))
    pool = by_config(file, Context()).pools[0]
    assert (pool.nodes, pool.node_names) == (2, {"gpu-1", "gpu-2"})


def test_the_schema_accepts_the_complete_file(capsys: pytest.CaptureFixture[str]) -> None:
    complete = yaml.safe_load(printed(capsys))
    validator = Draft7Validator(json.loads(printed(capsys, "--schema")))
    assert list(validator.iter_errors(complete)) == []
    assert list(validator.iter_errors({"pool": []})) != []


WRONG: list[tuple[Any, str]] = [
    ({"pools": [{"name": "a", "gpusPerNode": 8, "nodes": "gpu-1"}]}, "[gpu-1, gpu-2], or their"),
    ({"pools": [{"name": "a", "gpusPerNode": 8, "taints": ["gpu"]}]}, "key=value:Effect"),
    ({"pools": [{"name": "a"}]}, "Pools of GPU nodes"),
    ({"pools": {"name": "a"}}, "Pools of GPU nodes"),
    ({"exemptions": [{"rules": ["GPU036"]}]}, "Rules that do not apply until a date"),
    ({"plugin": "time-slicing"}, "Configuration of NVIDIA's device plugin"),
    ({"ignore": ["a"]}, "settings of the rules"),
]


@pytest.mark.parametrize(("settings", "form"), WRONG)
def test_a_wrong_form_is_refused_with_the_right_one(
    settings: Any, form: str, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(settings))
    with pytest.raises(ContextError) as error:
        settings_of(file, trusted=True)
    fault, *_ = error.value.faults
    assert form in fault.wanted
    assert "gpu-rules settings" in fault.cure


def node(name: str, gpus: Any, product: str = "", *taints: Any) -> Any:
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": "40960"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels if product else {}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": {"cpu": "8", **({"nvidia.com/gpu": gpus} if gpus else {})}},
    }


def test_the_settings_of_a_cluster_are_made_of_its_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    away = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    nodes = [
        node("gpu-1", "8", "NVIDIA-A100", taint),
        node("gpu-2", "8", "NVIDIA-A100", taint, away),
        node("gpu-3", "4", "NVIDIA-A100", taint),
        node("odd-1", "1"),
        node("cpu-1", None),
        node("none-1", "0"),
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(listed.encode())))
    file = tmp_path / "cluster.yaml"
    file.write_text(printed(capsys, "-"))
    pools = by_config(file, Context()).pools
    assert [(pool.name, pool.gpus_per_node, sorted(pool.node_names)) for pool in pools] == [
        ("nvidia-a100", 8, ["gpu-1", "gpu-2"]),
        ("nvidia-a100-2", 4, ["gpu-3"]),
        ("gpu", 1, ["odd-1"]),
    ]
    assert [str(taint) for taint in pools[0].taints] == ["nvidia.com/gpu=present:NoSchedule"]
    assert pools[0].gpu_memory_mib == 40960


@pytest.mark.parametrize("content", ["", "kind: [", "apiVersion: v1\nkind: Pod\n", "[1]"])
def test_input_without_nodes_is_refused(
    content: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    assert main(["settings", "-"]) == 2
    assert "standard input" in capsys.readouterr().err
