"""The component package's schema follows the models of the settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from email.message import Message
from importlib import metadata
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from gpu_cluster.cluster import GpuCluster
from gpu_cluster.desired.resolve import resolve
from gpu_cluster.loading.loader import load
from gpu_cluster.package.packaged import COMPONENTS
from gpu_cluster.package.schema import NAME, WITH_DEFAULTS, package_schema
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.effects import EFFECTS
from gpu_cluster.validation.measurement import Outcome
from gpu_cluster.validation.node_result import of_node
from tests.fixtures.documents import stack_document

SCHEMA = package_schema()
CLUSTER = stack_document(nodes=["gpu-1"])


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
                text = declared["properties"][alias]["description"]
                assert text.partition(". Default: ")[0] == field.description


def test_the_whole_takes_each_section_of_the_stack_file() -> None:
    whole = SCHEMA["resources"][GpuCluster.TYPE]
    every = {field.alias for field in ClusterSettings.model_fields.values()}
    sections = every - {"version", "stateCopies"}
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


def test_each_section_says_what_a_change_of_it_does() -> None:
    whole = SCHEMA["resources"][GpuCluster.TYPE]["inputProperties"]
    for name, effect in EFFECTS.items():
        if name in whole:
            assert (
                f"A change: {effect.changes} Pods: {effect.disrupts}"
                in (whole[name]["description"])
            )


def test_a_default_of_the_schema_is_the_one_that_loading_takes() -> None:
    written = {
        name: {
            key: value["default"] for key, value in properties(name).items() if "default" in value
        }
        for name in WITH_DEFAULTS
    }
    assert sum(map(len, written.values())) > 5
    required = {"guardrails": {"mode": "audit"}}
    without = {name: required.get(name, {}) for name in WITH_DEFAULTS}
    with_defaults = {name: {**written[name], **required.get(name, {})} for name in WITH_DEFAULTS}
    given = load(CLUSTER | without).model_dump()
    assert load(CLUSTER | with_defaults).model_dump() == given


def properties(section: str) -> dict[str, Any]:
    declared = SCHEMA["resources"][GpuCluster.TYPE]["inputProperties"][section]
    found: dict[str, Any] = SCHEMA["types"][declared["$ref"].removeprefix("#/types/")]["properties"]
    return found


def test_no_default_reaches_a_setting_that_pools_or_hosts_override() -> None:
    for name in ("Pool", "Host", "RuntimeSettings", "DriverSettings", "SshSettings"):
        declared = SCHEMA["types"][f"{NAME}:index:{name}"]["properties"]
        assert not [key for key, value in declared.items() if "default" in value], name


def test_outputs_have_the_types_that_the_program_gives() -> None:
    outputs = SCHEMA["resources"][GpuCluster.TYPE]["properties"]
    for output, kind in (("nodes", "NodeResult"), ("tests", "TestResult")):
        assert outputs[output]["items"] == {"$ref": f"#/types/{NAME}:index:{kind}"}
    (pool,) = resolve(load(CLUSTER), "test").validation.pools
    node = {"metadata": {"name": "gpu-1", "annotations": {}}, "status": {"allocatable": {}}}
    declared = SCHEMA["types"][f"{NAME}:index:NodeResult"]["properties"]
    assert of_node(pool, node).keys() == declared.keys()
    fields = {field.name for field in dataclasses.fields(Outcome)}
    assert fields == SCHEMA["types"][f"{NAME}:index:TestResult"]["properties"].keys()


def test_the_schema_has_a_licence_and_the_addresses_of_the_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert SCHEMA["license"] == "Apache-2.0"
    assert "gpu" in SCHEMA["keywords"]
    message = Message()
    message["Project-URL"] = "Homepage, https://example.org/site"
    message["Project-URL"] = "Repository, https://example.org/code"
    monkeypatch.setattr(metadata, "metadata", lambda name: message)
    found = package_schema()
    assert found["homepage"] == "https://example.org/site"
    assert found["repository"] == "https://example.org/code"
