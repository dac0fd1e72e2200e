"""Short lines that show how a resource's inputs change, one line for each property.

A property whose value is a JSON text is compared by the paths inside that text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pulumi.runtime.rpc import UNKNOWN

# Maximum number of lines about one resource; the lines beyond it are only counted.
MOST = 8

# Maximum length of a shown value in characters.
WIDTH = 60

# Inputs that only contain the reason why a Command runs again. They are left out of the lines
# because the program reports the same reason as a line `drift: …`.
TOLD = ("environment.GPU_CLUSTER_FINDING",)

SECRET = ("[secret]", "4dabf18193072939515e22adb298388d")
"""Text that the engine shows in place of a secret, and the key of a secret in properties.

Source: pulumi v3.250.0, sdk/go/common/resource/sig.
"""

_ABSENT = object()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line ``path: old → new`` for each property that differs between two inputs."""
    before, after = _flatten(old), _flatten(new)
    lines = [
        line
        for path in sorted(before.keys() | after.keys())
        if before.get(path, _ABSENT) != after.get(path, _ABSENT)
        if (line := _property_line(path, before.get(path, _ABSENT), after.get(path, _ABSENT)))
    ]
    more = len(lines) - MOST
    return [*lines[:MOST], f"and {more} more"] if more > 0 else lines


def _property_line(path: str, old: Any, new: Any) -> str:
    """Return the line about one property; empty for secrets and properties in `TOLD`."""
    if path in TOLD or any(mark in f"{path} {old} {new}" for mark in SECRET):
        return ""
    if any(value == UNKNOWN for value in (old, new)):
        return f"{path}: {_shorten_value(old)} → known after the run"
    was, now = _shorten_value(old), _shorten_value(new)
    return f"{path}: {was} → {now}" if was != now else f"{path}: another text"


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, str) and value[:1] in "[{":
        try:
            value = json.loads(value)
        except ValueError:
            return {path: value}
    pairs = None
    if isinstance(value, Mapping):
        pairs = [(f"{path}.{key}" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, list):
        pairs = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    if not pairs:
        return {path: value} if path else {}
    return {inner: leaf for name, item in pairs for inner, leaf in _flatten(item, name).items()}


def _shorten_value(value: Any) -> str:
    if value is _ABSENT:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if "\n" in text:
        return f"{len(text.splitlines())} lines"
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
