"""Pulumi schema of the component package, generated from the settings' models. Pure functions.

A schema that is written by hand, or inferred from a second set of classes, would be a twin of the
models. Source of the format: pulumi/pulumi v3.274.1, pkg/codegen/schema/pulumi.json.
"""

from __future__ import annotations

from typing import Any

from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from gpu_cluster.package.packaged import COMPONENTS, Packaged
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_rules.version import VERSION

Json = dict[str, Any]

NAME = "gpucluster"
"""Name of the package: the first part of each type token."""
DESCRIPTION = "A GPU Kubernetes cluster and its parts: hosts, platform, validation, guardrails."

_REF = "#/$defs/"
_SECRETS = {
    "kubeconfig": "The contents of a kubeconfig that has the context `kubernetes.context`. It may "
    "be an output of a cluster that the same program creates. Without it the kubeconfig of the "
    "engineer's machine is read.",
    "private_key": "The SSH private key that logs in to the hosts.",
    "registry_credentials": "Docker's configuration in JSON, for registries that need a login.",
}
_ANY = {"$ref": "pulumi.json#/Any"}
_OUTPUTS: dict[str, Json] = {
    "nodes": {
        "type": "array",
        "items": _ANY,
        "description": "The validation's result of each node. Empty without a validation.",
    },
    "tests": {
        "type": "array",
        "items": _ANY,
        "description": "The measurements of the tests that the settings define.",
    },
    "charts": {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "The versions of the installed Helm charts, by the chart's name.",
    },
}
_MADE: dict[str, Json] = {
    "madeKubeconfig": {
        "type": "string",
        "secret": True,
        "description": "The kubeconfig of the cluster that `kubernetesPackages.init` creates. "
        "Empty "
        "if the cluster exists without the program.",
    },
}


class _Quiet(GenerateJsonSchema):
    """JSON schema generator without warnings about defaults that JSON can't represent."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012


def package_schema() -> Json:
    """Return the Pulumi schema of the component package."""
    mode: JsonSchemaMode = "validation"
    _, models = models_json_schema(
        [(ClusterSettings, mode)], by_alias=True, schema_generator=_Quiet
    )
    definitions = dict(models["$defs"])
    root = definitions.pop(ClusterSettings.__name__)
    return {
        "name": NAME,
        "version": VERSION,
        "displayName": "GPU cluster",
        "description": DESCRIPTION,
        "resources": {
            token: _resource_schema(packaged, root) for token, packaged in COMPONENTS.items()
        },
        "types": {
            _type_token(name): _type_schema(definition)
            for name, definition in sorted(definitions.items())
        },
        "language": {
            name: {"respectSchemaVersion": True}
            for name in ("csharp", "go", "java", "nodejs", "python")
        },
    }


def _resource_schema(packaged: Packaged, root: Json) -> Json:
    """Return the Pulumi schema of a component.

    Args:
        packaged: The component.
        root: JSON schema of the whole stack file.
    """
    fields = ClusterSettings.model_fields
    names = {name: fields[name].alias or to_camel(name) for name in packaged.sections}
    inputs = {alias: _plain_schema(root["properties"][alias]) for alias in names.values()}
    for name in packaged.secrets:
        inputs[to_camel(name)] = {
            "type": "string",
            "secret": True,
            "description": _SECRETS[name],
        }
    outputs = _OUTPUTS | (_MADE if packaged.makes_cluster else {})
    needed = {names[name] for name in packaged.needed}
    return {
        "isComponent": True,
        "description": (packaged.component.__doc__ or "").partition("\n")[0],
        "inputProperties": inputs,
        "requiredInputs": sorted(needed | (set(root["required"]) & set(inputs))),
        "properties": outputs,
        "required": sorted(outputs),
    }


def _type_schema(definition: Json) -> Json:
    """Convert the JSON schema of a model or an enumeration to a Pulumi type of the package."""
    text = _description_of(definition)
    if "enum" in definition:
        values = [{"value": value} for value in definition["enum"]]
        return {"type": definition["type"], "enum": values, **text}
    properties = {
        name: _value_schema(schema) for name, schema in definition.get("properties", {}).items()
    }
    needed = sorted(definition.get("required", ()))
    object_type = {"type": "object", "properties": properties, **text}
    return {**object_type, "required": needed} if needed else object_type


def _plain_schema(schema: Json) -> Json:
    """Return the schema of a setting, marked plain: its value can't be an unresolved output."""
    return {**_value_schema(schema), "plain": True}


def _value_schema(schema: Json) -> Json:
    """Convert the JSON schema of a property, list item or mapping value to Pulumi's format."""
    text = _description_of(schema)
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) == 1:
        return {**_value_schema(kinds[0]), **text}
    if kinds:
        return {"oneOf": [_value_schema(kind) for kind in kinds], **text}
    if "$ref" in schema:
        return {"$ref": f"#/types/{_type_token(schema['$ref'].removeprefix(_REF))}", **text}
    kind = schema.get("type")
    if kind == "array":
        return {"type": kind, "items": _value_schema(schema.get("items", {})), **text}
    if kind == "object":
        values = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
        typed = next((value for value in values if isinstance(value, dict)), {})
        return {"type": kind, "additionalProperties": _value_schema(typed), **text}
    if kind is None:
        return {**_ANY, **text}
    return {"type": kind, **text}


def _description_of(schema: Json) -> Json:
    return {"description": schema["description"]} if schema.get("description") else {}


def _type_token(name: str) -> str:
    return f"{NAME}:index:{name}"
