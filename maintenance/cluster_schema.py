"""JSON schema of stack files, for editors and for the page of all settings; pure functions."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from gpu_cluster.base.model import FrozenDict
from gpu_cluster.base.yaml_file import parse
from gpu_cluster.loading.stack_file import KEY
from gpu_cluster.settings.declared_cluster import ClusterSettings
from gpu_cluster.settings.effects import EFFECTS
from gpu_rules.faults import InputError

Json = dict[str, Any]
_TAINT = "a taint as text: key=value:Effect or key:Effect"


class _Generator(GenerateJsonSchema):
    """Generator of a JSON schema that can also write defaults that are frozen mappings."""

    def encode_default(self, dft: Any) -> Any:
        """Return a default value as JSON."""
        return super().encode_default(dict(dft) if isinstance(dft, FrozenDict) else dft)


def cluster_schema() -> Json:
    """Return the schema of `gpu-cluster:cluster`.

    The schema accepts each document that loads; rules between sections are only in the program.
    """
    schema = ClusterSettings.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema["properties"] = {name: schema["properties"][name] for name in EFFECTS}
    models = schema["$defs"]
    # The pydantic models convert these short forms to the long forms before validation.
    models["Taint"] = {"anyOf": [{"type": "string", "description": _TAINT}, models["Taint"]]}
    models["Host"]["required"].remove("node")
    strategies = models["PluginFlags"]["properties"]["deviceListStrategy"]
    strategies["anyOf"] = [
        strategies["items"],
        {name: strategies.pop(name) for name in ("type", "items", "minItems")},
    ]
    for model in (schema, *models.values()):
        for setting in model.get("properties", {}).values():
            _simplify_setting(setting)
    return schema


def _simplify_setting(setting: Json) -> None:
    """Drop the title, which repeats the name, and read examples, which are YAML."""
    setting.pop("title", None)
    if "examples" in setting:
        setting["examples"] = [_read_example(setting, example) for example in setting["examples"]]


def _read_example(setting: Json, written: Any) -> Any:
    kinds = [setting, *setting.get("anyOf", ())]
    if not isinstance(written, str) or any(kind.get("type") == "string" for kind in kinds):
        return written
    try:
        return parse(written).value
    except InputError:
        return written


def stack_schema() -> str:
    """Return the schema of a file `Pulumi.<stack>.yaml` as JSON text."""
    cluster = cluster_schema()
    models = cluster.pop("$defs")
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Stack file of gpu-cluster",
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {"type": "object", "required": [KEY], "properties": {KEY: cluster}}
        },
        "$defs": models,
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
