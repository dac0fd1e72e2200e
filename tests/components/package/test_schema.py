"""The component package's schema follows the models of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from gpu_cluster.cluster import GpuCluster
from gpu_cluster.package.packaged import COMPONENTS
from gpu_cluster.package.schema import NAME, package_schema
from gpu_cluster.settings.declared_cluster import ClusterSettings

SCHEMA = package_schema()


def models(model: type[BaseModel], known: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """Return a model and all models of its fields."""
    if model not in known:
        known.add(model)
        for field in model.model_fields.values():
            for found in classes(field.annotation):
                models(found, known)
    return known


def classes(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from classes(inner)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for item in value.values():
            yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


@pytest.mark.promise(
    "The component package's schema has each setting of the stack file, with its description, and "
    "requires what the stack file requires."
)
def test_each_model_is_a_type_with_the_same_fields() -> None:
    found = models(ClusterSettings, set()) - {ClusterSettings}
    assert len(found) > 50
    for model in found:
        declared = SCHEMA["types"][f"{NAME}:index:{model.__name__}"]
        aliases = {field.alias: field for field in model.model_fields.values()}
        assert set(declared["properties"]) == set(aliases), model
        needed = {alias for alias, field in aliases.items() if field.is_required()}
        assert set(declared.get("required", ())) == needed, model
        for alias, field in aliases.items():
            if field.description:
                assert declared["properties"][alias]["description"] == field.description


def test_the_whole_takes_each_section_of_the_stack_file() -> None:
    whole = SCHEMA["resources"][GpuCluster.TYPE]
    sections = {field.alias for field in ClusterSettings.model_fields.values()} - {"version"}
    assert set(whole["inputProperties"]) - sections == {
        "kubeconfig",
        "privateKey",
        "registryCredentials",
    }
    assert sections <= set(whole["inputProperties"])
    assert whole["requiredInputs"] == ["kubernetes", "platform", "pools"]


def test_a_part_takes_fewer_sections_than_the_whole() -> None:
    whole = set(SCHEMA["resources"][GpuCluster.TYPE]["inputProperties"])
    parts = [token for token in COMPONENTS if token != GpuCluster.TYPE]
    assert len(parts) == 5
    for token in parts:
        assert set(SCHEMA["resources"][token]["inputProperties"]) < whole


def test_each_reference_names_a_type_of_the_schema() -> None:
    known = {f"#/types/{name}" for name in SCHEMA["types"]} | {"pulumi.json#/Any"}
    assert set(references(SCHEMA)) <= known


def test_secrets_are_secret_and_settings_are_plain() -> None:
    secrets = {"kubeconfig", "privateKey", "registryCredentials"}
    for resource in SCHEMA["resources"].values():
        for name, declared in resource["inputProperties"].items():
            assert declared.get("secret", False) is (name in secrets), name
            assert declared.get("plain", False) is (name not in secrets), name


def test_every_input_and_output_has_a_description() -> None:
    for token, resource in SCHEMA["resources"].items():
        assert resource["description"], token
        for kind in ("inputProperties", "properties"):
            for name, declared in resource[kind].items():
                assert declared.get("description"), f"{token} {name}"


def test_the_schema_is_the_same_each_time() -> None:
    assert json.dumps(package_schema()) == json.dumps(SCHEMA)
