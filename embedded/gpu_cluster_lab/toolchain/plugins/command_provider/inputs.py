"""Inputs of each resource type, with their defaults and checks.

Source of names, types and defaults: schema.json of pulumi-command 1.2.1
(provider/cmd/pulumi-resource-command).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from gpu_cluster import property_values as values

LOCAL_COMMAND = "command:local:Command"
REMOTE_COMMAND = "command:remote:Command"

LOGGING = ("stdout", "stderr", "stdoutAndStderr", "none")

_LIFECYCLE = {"create": "string", "update": "string", "delete": "string", "triggers": "list"}
_PROCESS = {
    "stdin": "string",
    "logging": "logging",
    "environment": "map of strings",
    "addPreviousOutputInEnv": "boolean",
}
_LOCAL = _PROCESS | {
    "interpreter": "list of strings",
    "dir": "string",
}

INPUTS: Mapping[str, Mapping[str, str]] = {
    LOCAL_COMMAND: _LIFECYCLE | _LOCAL,
    REMOTE_COMMAND: _LIFECYCLE | _PROCESS | {"connection": "connection"},
}
_ANY = {"$ref": "pulumi.json#/Any"}
SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "logging": {"type": "string"},
    "list": {"type": "array", "items": _ANY},
    "list of strings": {"type": "array", "items": {"type": "string"}},
    "map of strings": {"type": "object", "additionalProperties": {"type": "string"}},
    "connection": _ANY,
}
"""The schema of each type of input."""
_REQUIRED = {REMOTE_COMMAND: ("connection",)}
_UNSERVED = ("archivePaths", "assetPaths", "agentSocketPath", "password", "privateKeyPassword")
"""Inputs of the official plugin that this one refuses."""

_ENDPOINT = {
    "host": "string",
    "port": "number",
    "user": "string",
    "privateKey": "string",
    "dialErrorLimit": "integer",
    "perDialTimeout": "integer",
    "hostKey": "string",
}
_ENDPOINT_DEFAULTS = {"port": 22, "user": "root", "dialErrorLimit": 10, "perDialTimeout": 15}

Failures = list[tuple[str, str]]
"""Faults of inputs, each a pair of property path and reason."""


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": _is_string,
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and int(value) == value,
    "list": lambda value: isinstance(value, list),
    "list of strings": lambda value: isinstance(value, list) and all(map(_is_string, value)),
    "map of strings": lambda value: (
        isinstance(value, dict) and all(map(_is_string, value.values()))
    ),
    "logging": lambda value: value in LOGGING,
    "connection": lambda value: isinstance(value, dict),
}


def check(token: str, news: Mapping[str, Any]) -> tuple[values.Properties, Failures]:
    """Return a resource's inputs completed with defaults, and the faults of these inputs.

    Inputs that the resource type does not have are dropped, as by the official plugin. A value that
    is not known yet passes the check. The reasons never contain a value, because values can be
    secret.
    """
    known_inputs = INPUTS[token]
    inputs = {
        name: value for name, value in news.items() if name in known_inputs and value is not None
    }
    failures: Failures = [
        (name, f"required by {token}, but absent")
        for name in _REQUIRED.get(token, ())
        if name not in inputs
    ]
    failures += _check_unserved("", news)
    for name, value in inputs.items():
        failures += _check_type(name, values.reveal(value), known_inputs[name])
    if "connection" in inputs:
        connection: Any = values.reveal(inputs["connection"])
        if isinstance(connection, dict):
            connection = _with_defaults(connection)
            failures += _check_connection("connection", connection)
            if isinstance(connection.get("proxy"), dict):
                failures += _check_connection("connection.proxy", connection["proxy"])
        inputs["connection"] = values.secret(connection)
    return inputs, failures


def _check_type(path: str, value: Any, type_name: str) -> Failures:
    if value is None or values.has_unknown(value) or _TYPES[type_name](value):
        return []
    if type_name == "logging":
        return [(path, f"wanted one of {', '.join(LOGGING)}")]
    return [(path, f"wanted {type_name}, found {type(value).__name__}")]


def _check_unserved(path: str, given: Mapping[str, Any]) -> Failures:
    """Return an error for each input that only the official plugin supports.

    Such inputs must not be ignored silently.

    Args:
        path: Path of the section that contains the inputs, ending with a dot; empty for the top
            level.
        given: The inputs.
    """
    reason = "served by the official plugin only; put it on PATH or leave this input out"
    return [(f"{path}{name}", reason) for name in _UNSERVED if given.get(name) is not None]


def _with_defaults(connection: Mapping[str, Any]) -> values.Properties:
    filled: values.Properties = _ENDPOINT_DEFAULTS | {
        k: v for k, v in connection.items() if v is not None
    }
    if isinstance(filled.get("proxy"), dict):
        filled["proxy"] = _with_defaults(filled["proxy"])
    return filled


def _check_connection(path: str, endpoint: Mapping[str, Any]) -> Failures:
    failures = _check_unserved(f"{path}.", endpoint)
    for name, type_name in _ENDPOINT.items():
        failures += _check_type(f"{path}.{name}", endpoint.get(name), type_name)
    if not endpoint.get("host"):
        failures.append((f"{path}.host", "required, but absent or empty"))
    host_key = endpoint.get("hostKey")
    if not host_key:
        failures.append((f"{path}.hostKey", missing_host_key(endpoint)))
    elif host_key != values.UNKNOWN and isinstance(host_key, str) and not _is_public_key(host_key):
        failures.append(
            (f"{path}.hostKey", f"not a public key line `<type> <base64>`. {_keyscan(endpoint)}")
        )
    return failures


def missing_host_key(endpoint: Mapping[str, Any]) -> str:
    """Return the error text for a connection without a host key."""
    return (
        "required by this plugin, which the project uses where the official one cannot be had; "
        f"the official one would take any key. {_keyscan(endpoint)}"
    )


def _keyscan(endpoint: Mapping[str, Any]) -> str:
    host, port = endpoint.get("host"), endpoint.get("port", 22)
    host = host if isinstance(host, str) and host != values.UNKNOWN else "HOST"
    port = int(port) if _is_number(port) else 22
    return f"`ssh-keyscan -t ed25519 -p {port} {host}` prints it; compare it with the host's own."


def _is_public_key(line: str) -> bool:
    """Check that a line is an SSH public key: a key type and a base64 blob.

    The blob must begin with the same key type.
    """
    words = line.split()
    if len(words) < 2:
        return False
    try:
        blob = base64.b64decode(words[1], validate=True)
    except (binascii.Error, ValueError):
        return False
    return blob[4 : 4 + int.from_bytes(blob[:4], "big")] == words[0].encode()
