"""Pulumi schema of the component package, generated from the settings' models. Pure functions.

A schema that is written by hand, or inferred from a second set of classes, would be a twin of the
models. Source of the format: pulumi/pulumi v3.274.1, pkg/codegen/schema/pulumi.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from gpu_cluster.package.packaged import COMPONENTS, Packaged
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.effects import EFFECTS
from gpu_rules.version import VERSION

Json = dict[str, Any]

NAME = "gpucluster"
"""Name of the package: the first part of each type token."""
DISTRIBUTION = "gpu-cluster"
"""Name of the wheel that has the package."""
LICENCE = "Apache-2.0"
KEYWORDS = ("pulumi", "nvidia", "gpu", "kubernetes")
WITH_DEFAULTS = ("guardrails", "monitoring", "rollout", "validation")
"""Sections whose types have Pulumi's defaults, which SDKs write into each program.

No pool or host overrides these sections, and loading doesn't ask whether a setting of them is
written. In the other sections a default is only a part of the description.
"""
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
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_RESULTS: Mapping[str, tuple[str, Json]] = {
    "NodeResult": (
        "Result of the validation of a node.",
        {
            "name": {**_TEXT, "description": "The node."},
            "declared": {**_NUMBER, "description": "GPUs that the settings declare."},
            "offered": {
                "type": "object",
                "additionalProperties": _NUMBER,
                "description": "What the node advertises, by the name of the resource.",
            },
            "computed": {**_NUMBER, "description": "GPUs that ran a kernel."},
            "simulated": {**_NUMBER, "description": "GPUs of a simulator, which run none."},
            "deferred": {
                **_NUMBER,
                "description": "GPUs whose validation waits until a pod releases them.",
            },
            "held": {**_TEXT, "description": "The pods that hold deferred GPUs."},
            "since": {**_TEXT, "description": "UTC time of the validation."},
            "devices": {
                "type": "object",
                "additionalProperties": {"type": "array", "items": _TEXT},
                "description": "UUIDs of the GPUs that ran a kernel, each with those of its MIG "
                "devices. Empty in pools of more than 100 nodes.",
            },
        },
    ),
    "TestResult": (
        "Result of a user-defined test on a node.",
        {
            "test": {**_TEXT, "description": "Name of the test."},
            "node": {**_TEXT, "description": "The node."},
            "pool": {**_TEXT, "description": "Name of the node's pool."},
            "figure": {"type": "number", "description": "Measured value, if one was measured."},
            "minimum": {"type": "number", "description": "Least value that passes."},
            "problem": {**_TEXT, "description": "Why the test failed. Empty: it did not."},
            "skipped": {**_TEXT, "description": "Why the test did not run. Empty: it ran."},
            "simulated": {"type": "boolean", "description": "Whether it was only simulated."},
            "at": {**_TEXT, "description": "UTC time of the result."},
        },
    ),
}
"""Types of the outputs; docs/reference/outputs.md describes them."""
_UNSET = ("figure", "minimum")
"""Properties of results that may have no value."""
_OUTPUTS: dict[str, Json] = {
    "nodes": {
        "type": "array",
        "items": {"$ref": "#/types/gpucluster:index:NodeResult"},
        "description": "The validation's result of each node. Empty without a validation.",
    },
    "tests": {
        "type": "array",
        "items": {"$ref": "#/types/gpucluster:index:TestResult"},
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
    inside, outside = (
        [item for name, item in root["properties"].items() if (name in WITH_DEFAULTS) is is_inside]
        for is_inside in (True, False)
    )
    of_sections = _models_of(inside, definitions) - _models_of(outside, definitions)
    return {
        "name": NAME,
        "version": VERSION,
        "displayName": "GPU cluster",
        "description": DESCRIPTION,
        **_addresses(),
        "resources": {
            token: _resource_schema(packaged, root) for token, packaged in COMPONENTS.items()
        },
        "types": {
            **{
                _type_token(name): _type_schema(definition, has_defaults=name in of_sections)
                for name, definition in sorted(definitions.items())
            },
            **{
                _type_token(name): {
                    "type": "object",
                    "description": text,
                    "properties": properties,
                    "required": sorted(properties.keys() - {*_UNSET}),
                }
                for name, (text, properties) in _RESULTS.items()
            },
        },
        "language": {
            name: {"respectSchemaVersion": True}
            for name in ("csharp", "go", "java", "nodejs", "python")
        },
    }


def _addresses() -> Json:
    """Return licence, keywords and addresses of the package.

    Licence and addresses are those of the installed wheel, in which a release writes the address of
    its repository. In a clone there are no addresses.
    """
    found: Json = {"license": LICENCE, "keywords": list(KEYWORDS)}
    try:
        lines = metadata.metadata(DISTRIBUTION).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return found
    urls = dict(line.split(", ", 1) for line in lines if ", " in line)
    names = {"homepage": "Homepage", "repository": "Repository"}
    return found | {key: urls[name] for key, name in names.items() if name in urls}


def _resource_schema(packaged: Packaged, root: Json) -> Json:
    """Return the Pulumi schema of a component.

    Args:
        packaged: The component.
        root: JSON schema of the whole stack file.
    """
    fields = ClusterSettings.model_fields
    names = {name: fields[name].alias or to_camel(name) for name in packaged.sections}
    inputs = {alias: _input_schema(alias, root["properties"][alias]) for alias in names.values()}
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


def _models_of(value: Any, definitions: Mapping[str, Json]) -> set[str]:
    """Return the names of the models that a part of a JSON schema refers to, also indirectly."""
    found: set[str] = set()
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            name = str(item.get("$ref", "")).removeprefix(_REF)
            if name and name not in found:
                found.add(name)
                waiting.append(definitions[name])
            item = list(item.values())
        if isinstance(item, list):
            waiting += item
    return found


def _type_schema(definition: Json, *, has_defaults: bool) -> Json:
    """Convert the JSON schema of a model or an enumeration to a Pulumi type of the package.

    Args:
        has_defaults: Whether properties with a plain value have Pulumi's defaults.
    """
    text = _description_of(definition)
    if "enum" in definition:
        values = [{"value": value} for value in definition["enum"]]
        return {"type": definition["type"], "enum": values, **text}
    properties = {
        name: _value_schema(schema) | (_default_of(schema) if has_defaults else {})
        for name, schema in definition.get("properties", {}).items()
    }
    needed = sorted(definition.get("required", ()))
    object_type = {"type": "object", "properties": properties, **text}
    return {**object_type, "required": needed} if needed else object_type


def _input_schema(name: str, schema: Json) -> Json:
    """Return the schema of a section with the effect of a change, as the page of settings has it.

    A section is marked plain: its value can't be an unresolved output.
    """
    effect = EFFECTS[name]
    parts = (_sentence(schema.get("description", "")), f"A change: {effect.changes}")
    text = " ".join((*parts, f"Pods: {effect.disrupts}"))
    return {**_value_schema(schema), "description": text, "plain": True}


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


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
    """Return the description of a schema, with its default value.

    The default is text, and not Pulumi's `default`, which SDKs write into each program: a setting
    that a pool or host leaves out must stay left out, because it takes the stack's value.
    """
    text, value = schema.get("description", ""), schema.get("default")
    if not text:
        return {}
    if isinstance(value, str | int | float) and value != "":
        text = f"{text}. Default: `{json.dumps(value) if not isinstance(value, str) else value}`"
    return {"description": text}


def _default_of(schema: Json) -> Json:
    is_plain = schema.get("type") in ("string", "integer", "number", "boolean")
    return {"default": schema["default"]} if is_plain and "default" in schema else {}


def _type_token(name: str) -> str:
    return f"{NAME}:index:{name}"
