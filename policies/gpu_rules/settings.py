"""The cluster facts that the policy pack passes to the rules.

A setting of the policy pack's configuration replaces that setting of the stack's configuration key
`gpu-cluster:cluster`, and no other. Only the Pulumi project of the stack can parse that key. The
project passes the pack a function for this (`read_stacks_by`).
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pulumi_policy.policy as sdk
from pulumi_policy import PolicyConfigSchema
from pulumi_policy.secret import Secret, _DictSecretsProxy, _ListSecretsProxy

from .faults import ConfigError, PartError
from .parameters import PROPERTIES, RULE_FOLDER, context_by
from .rules import Context
from .rules.discovery import RuleError
from .rules.registry import add_rules
from .rules.secret import SECRET

STACK_KEY = "gpu-cluster:cluster"

SCHEMA = PolicyConfigSchema(properties=dict(PROPERTIES))

StackReader = Callable[[str], Context]
"""A function that parses a stack's `gpu-cluster:cluster` and returns the rule context, or raises
`ConfigError`.
"""

_received: dict[str, str] = {}
_readers: list[StackReader] = []


def read_stacks_by(reader: StackReader) -> None:
    """Set the function that parses stack configurations; it replaces an earlier function."""
    _readers[:] = [reader]
    _cached_context.cache_clear()


def receive_stack_configuration() -> None:
    """Patch the policy SDK so that it keeps the stack's `gpu-cluster:cluster`.

    If the Pulumi engine starts the pack through the language host, it sends the stack's
    configuration with the gRPC call ConfigureStack and does not set PULUMI_CONFIG (pulumi v3.250.0
    pkg/resource/plugin/analyzer_plugin.go NewPolicyAnalyzer). pulumi-policy 1.21.0 keeps only the
    tags of that call. The patch keeps no other key of the configuration, and so no secrets.
    """
    servicer: Any = sdk._PolicyAnalyzerServicer
    inner = servicer.ConfigureStack

    def configure_stack(self: object, request: Any, context: Any) -> Any:
        _received.update({k: v for k, v in request.config.items() if k == STACK_KEY})
        return inner(self, request, context)

    servicer.ConfigureStack = configure_stack


def mark_secrets() -> None:
    """Patch the policy SDK so that policies see which inputs are secrets.

    The Pulumi engine marks the secret inputs (pulumi v3.250.0 analyzer_plugin.go Analyze,
    KeepSecrets), but pulumi-policy 1.21.0 passes the marks only to remediations. The patch wraps
    each secret value as in `gpu_rules.rules.secret`.
    """
    module: Any = sdk
    inner = module.deserialize_properties

    def marked(props: dict[str, Any], proxy_secrets: bool = False) -> dict[str, Any]:
        return inner(props, True) if proxy_secrets else dict(_mark_secrets(inner(props, True)))

    module.deserialize_properties = marked


def _mark_secrets(value: Any) -> Any:
    if isinstance(value, Secret):
        return {SECRET: _mark_secrets(value.value)}
    if isinstance(value, (_DictSecretsProxy, _ListSecretsProxy)):
        return _mark_secrets(value["__target"])
    if isinstance(value, dict):
        return {key: _mark_secrets(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_mark_secrets(item) for item in value]
    return value


def stack_document() -> str:
    """Return the stack's `gpu-cluster:cluster` as JSON text, or an empty text if it is not set."""
    if STACK_KEY in _received:
        return _received[STACK_KEY]
    # Pulumi engines before 3.2xx pass the stack's configuration in this environment variable.
    configuration = json.loads(os.environ.get("PULUMI_CONFIG") or "{}")
    return str(configuration.get(STACK_KEY, ""))


def context_for(settings: Mapping[str, Any], *, with_stack: bool = True) -> Context:
    """Return the cluster facts from the pack's settings, completed from the stack's configuration.

    Args:
        settings: Settings of the policy pack.
        with_stack: False as long as the Pulumi engine has not sent the stack's configuration.

    Raises:
        ValueError: The stack's `gpu-cluster:cluster` has faults (the message lists all of them), or
            no function was set to read it.
    """
    document = stack_document() if with_stack else ""
    return _cached_context(json.dumps(settings, sort_keys=True), document)


@functools.lru_cache(maxsize=8)
def _cached_context(settings_json: str, document: str) -> Context:
    settings: dict[str, Any] = json.loads(settings_json)
    context = Context()
    if RULE_FOLDER in settings:
        try:
            add_rules(Path(settings[RULE_FOLDER]))
        except RuleError as error:
            raise ValueError(str(error)) from None
    if document:
        context = _stack_context(document)
    return context_by(settings, context)


def _stack_context(document: str) -> Context:
    if not _readers:
        raise ValueError(
            f"{STACK_KEY} is set, and this pack cannot read it; "
            "cure: use the pack of the project that "
            "declares the cluster"
        )
    try:
        return _readers[0](document)
    except ConfigError as error:
        raise PartError(f"{STACK_KEY} cannot be used:\n{error}") from None
