"""Compare the old and the new inputs of a resource."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpu_cluster import property_values as values

ADD, DELETE, UPDATE = "ADD", "DELETE", "UPDATE"

_PLAIN_KEY = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return the changed properties as path and kind (`ADD`, `DELETE` or `UPDATE`).

    The result is empty if nothing changed. Paths have the format of the engine's detailed diff:
    `connection.host`, `triggers[0]`, `environment["a.b"]`. A value that becomes a secret, or stops
    being a secret, counts as changed, so that the state does not keep the old form.
    """
    differences: dict[str, str] = {}
    _compare_maps("", old, new, differences)
    return differences


def _compare_maps(
    path: str, old: Mapping[str, Any], new: Mapping[str, Any], differences: dict[str, str]
) -> None:
    for key in sorted(old.keys() | new.keys()):
        _compare(_below(path, key), old.get(key), new.get(key), differences)


def _below(path: str, key: str) -> str:
    if not _PLAIN_KEY.match(key):
        return path + '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return f"{path}.{key}" if path else key


def _compare(path: str, old: Any, new: Any, differences: dict[str, str]) -> None:
    if values.is_secret(old) and values.is_secret(new):
        old, new = values.reveal(old), values.reveal(new)
    if old == new:
        return
    if old is None:
        differences[path] = ADD
    elif new is None:
        differences[path] = DELETE
    elif _is_plain_map(old) and _is_plain_map(new):
        _compare_maps(path, old, new, differences)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            _compare(
                f"{path}[{index}]",
                old[index] if index < len(old) else None,
                new[index] if index < len(new) else None,
                differences,
            )
    else:
        differences[path] = UPDATE


def _is_plain_map(value: Any) -> bool:
    return isinstance(value, dict) and values.SIGNATURE not in value
