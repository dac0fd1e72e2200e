"""CustomResourceDefinitions in a cluster, compared with those of a chart."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpu_cluster.charts.contents import of_folder
from gpu_cluster.charts.definitions import lacking_fields, lost_fields
from tests.proofs.platform.chart_folders import FAKE_CHARTS, REAL

Json = dict[str, Any]
POLICY = "clusterpolicies.nvidia.com"


def definition(**spec: Json) -> Json:
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"versions": [version]}}


TEXT = {"type": "string"}
OLD = definition(sandbox={"type": "object", "properties": {"enabled": TEXT}})
NEW = definition(
    sandbox={"type": "object", "properties": {"enabled": TEXT, "mode": TEXT}},
    items={"type": "array", "items": {"type": "object", "properties": {"name": TEXT}}},
)


@pytest.mark.promise(
    "A CustomResourceDefinition that lacks fields of the declared chart is found before a change."
)
def test_fields_that_an_old_definition_lacks_are_named() -> None:
    assert lacking_fields(OLD, NEW) == ["v1 spec.sandbox.mode", "v1 spec.items"]
    assert lacking_fields(NEW, NEW) == lacking_fields(NEW, OLD) == []


@pytest.mark.clusters("stale", "version of a definition")
def test_a_version_that_is_not_served_is_named() -> None:
    newer = copy.deepcopy(NEW)
    newer["spec"]["versions"][0]["name"] = "v2"
    assert lacking_fields(OLD, newer) == ["v2"]


def test_a_definition_that_keeps_unknown_fields_lacks_none() -> None:
    keeping = copy.deepcopy(OLD)
    schema = keeping["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = True
    assert lacking_fields(keeping, NEW) == []


def test_a_definition_of_another_form_is_no_crash() -> None:
    for odd in ({}, {"spec": None}, {"spec": {"versions": [None, {"served": True}]}}):
        assert lacking_fields(odd, odd) == []
        assert lacking_fields(NEW, odd) in ([], ["None"])


@pytest.mark.promise("A field that the API server dropped from an applied object is found.")
def test_fields_that_were_applied_and_are_not_there_are_named() -> None:
    applied = {"a": {"b": 1, "c": 2}, "empty": {}, "list": [{"x": 1, "y": 2}], "gone": True}
    live = {"a": {"b": 7}, "list": [{"x": 1}], "more": 1}
    assert list(lost_fields(applied, live)) == ["a.c", "list.0.y", "gone"]
    assert list(lost_fields(applied, applied)) == []


@pytest.mark.parametrize("kind", [POLICY, "nvidiadrivers.nvidia.com"])
def test_the_fakes_definition_drops_unknown_fields(kind: str) -> None:
    made = dict(of_folder(FAKE_CHARTS / "gpu-operator").definitions)[kind]
    more = copy.deepcopy(made)
    spec = more["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["newerThanTheFake"] = TEXT
    assert [path.split(" ")[1] for path in lacking_fields(made, more)] == ["spec.newerThanTheFake"]


@pytest.mark.skipif(REAL is None, reason="GPU_CHARTS names no folder of charts")
@pytest.mark.parametrize("kind", [POLICY, "nvidiadrivers.nvidia.com"])
def test_the_fakes_definition_has_the_fields_of_the_real_one(kind: str) -> None:
    assert REAL is not None
    fake, real = (
        of_folder(folder / "gpu-operator").definitions[kind] for folder in (FAKE_CHARTS, REAL)
    )

    def names(item: Any) -> set[str]:
        spec = item["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        return {
            f"{section}.{name}"
            for section, schema in spec["properties"].items()
            for name in schema.get("properties", [""])
        }

    assert names(fake) == names(real)
