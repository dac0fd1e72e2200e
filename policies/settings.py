"""What the pack knows of the cluster: its own configuration first, then the stack's."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pulumi_policy.policy as sdk
from pulumi_policy import PolicyConfigSchema

from policies.rules import RULES, Context, Pool, Severity, Taint
from policies.stack import context_of

STACK_KEY = "gpu-cluster:cluster"
_TEXTS = {"type": "array", "items": {"type": "string"}}

SCHEMA = PolicyConfigSchema(
    properties={
        "rules": {
            "type": "object",
            "description": "What a violation of a rule does, by rule id.",
            "properties": {
                rule.id: {
                    "type": "string",
                    "enum": [str(severity) for severity in Severity],
                    "description": f"{rule.title} (default: {rule.severity})",
                }
                for rule in RULES.values()
            },
            "additionalProperties": False,
        },
        "pools": {
            "type": "array",
            "description": f"The GPU nodes; default: those of the stack's {STACK_KEY}.",
            "items": {
                "type": "object",
                "required": ["name", "gpusPerNode"],
                "properties": {
                    "name": {"type": "string"},
                    "gpusPerNode": {"type": "integer", "minimum": 0},
                    "taints": {**_TEXTS, "description": "key=value:Effect or key:Effect"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "additionalProperties": False,
            },
        },
        "platform": {
            "type": "string",
            "enum": ["device-plugin", "gpu-operator", "gpu-manager"],
            "description": "What hands out the GPUs; default: the stack's.",
        },
        "resourceNames": {**_TEXTS, "description": "GPU resources beside the well-known ones."},
        "extendedResourceToleration": {
            "type": "boolean",
            "description": "Whether the API server runs that admission plugin; default: false.",
        },
        "infrastructureNamespaces": {
            **_TEXTS,
            "description": "Where the GPU stack's own pods run.",
        },
    }
)

_received: dict[str, str] = {}


def receive_stack_configuration() -> None:
    """Keep the stack's `gpu-cluster:cluster` when the engine tells the pack about the stack.

    An engine that starts the pack by the language host sends the stack's configuration with
    ConfigureStack and sets no PULUMI_CONFIG (pulumi v3.250.0 pkg/resource/plugin/
    analyzer_plugin.go NewPolicyAnalyzer), and pulumi-policy 1.21.0 keeps only the tags of that
    call. Nothing else of the configuration is kept, secrets least of all.
    """
    servicer: Any = sdk._PolicyAnalyzerServicer
    inner = servicer.ConfigureStack

    def configure_stack(self: object, request: Any, context: Any) -> Any:
        _received.update({k: v for k, v in request.config.items() if k == STACK_KEY})
        return inner(self, request, context)

    servicer.ConfigureStack = configure_stack


def stack_document() -> str:
    """The stack's `gpu-cluster:cluster` as JSON text, empty where the stack has none."""
    if STACK_KEY in _received:
        return _received[STACK_KEY]
    configuration = json.loads(os.environ.get("PULUMI_CONFIG") or "{}")  # engines before 3.2xx
    return str(configuration.get(STACK_KEY, ""))


def context_for(settings: Mapping[str, Any]) -> Context:
    """The context by the pack's settings, and by the stack where those say nothing.

    Raises `ValueError` with all problems when the stack's `gpu-cluster:cluster` is needed and
    wrong.
    """
    return _context(json.dumps(settings, sort_keys=True), stack_document())


@functools.lru_cache(maxsize=8)
def _context(settings_json: str, document: str) -> Context:
    settings: dict[str, Any] = json.loads(settings_json)
    context = Context()
    if document and not ("pools" in settings and "platform" in settings):
        # pydantic's import takes a while: only where a stack declares a cluster
        from config import ConfigError, load

        try:
            context = context_of(load(json.loads(document)))
        except ConfigError as error:
            raise ValueError(f"{STACK_KEY} cannot be used:\n{error}") from None
    changes: dict[str, Any] = {
        "severities": {key: Severity(value) for key, value in settings.get("rules", {}).items()}
    }
    if "pools" in settings:
        changes["pools"] = tuple(map(_pool, settings["pools"]))
    if "platform" in settings:
        changes["platform"] = settings["platform"]
    if "resourceNames" in settings:
        changes["resource_names"] = frozenset(settings["resourceNames"])
    if "extendedResourceToleration" in settings:
        changes["extended_resource_toleration"] = settings["extendedResourceToleration"]
    if "infrastructureNamespaces" in settings:
        changes["infrastructure_namespaces"] = frozenset(settings["infrastructureNamespaces"])
    return replace(context, **changes)


def _pool(settings: Mapping[str, Any]) -> Pool:
    return Pool(
        name=settings["name"],
        gpus_per_node=int(settings["gpusPerNode"]),
        taints=tuple(map(_taint, settings.get("taints", ()))),
        labels=dict(settings.get("labels", {})),
    )


def _taint(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)
