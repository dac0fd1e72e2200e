"""Cures of Helm values that a setting of the stack file decides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_cluster.base.document_cures import REMOVE, move_to
from gpu_cluster.charts.extra_values import value_at
from gpu_cluster.charts.value_table import Value
from gpu_cluster.charts.value_types import type_of


def set_by_stack(entry: Value, value: Any, document: Mapping[str, Any]) -> str:
    """Return the cure of a value that a setting of the stack file decides.

    Args:
        entry: Facts about the value's path; it has a setting.
        value: The value in `extraValues`.
        document: All of `extraValues`.
    """
    if value is None:
        return f"{REMOVE}: null has no effect"
    if entry.switch and value_at(document, entry.switch) is not True:
        return f"{REMOVE}: without {entry.switch} it has no effect"
    if not type_of(entry.type).holds(value):
        return f"{REMOVE}; {entry.setting} of the stack file decides"
    chosen = _cure_of(entry, value, document)
    if entry.only and not chosen.startswith(REMOVE):
        return f"{chosen}, or {REMOVE}: without {entry.only} it has no effect"
    return chosen


def _cure_of(entry: Value, value: Any, document: Mapping[str, Any]) -> str:
    if entry.files and isinstance(value, Mapping):
        return _cure_of_files(entry, value, document)
    meaning = _meaning_of(entry, value)
    if meaning.startswith(REMOVE):
        return meaning
    if meaning:
        return f"write {meaning} and remove it here"
    if entry.cure:
        return f"{entry.cure} and remove it here"
    if isinstance(value, Mapping | list | tuple):
        return _cure_of_collection(entry, value)
    return f"write {entry.setting}: {json.dumps(value, ensure_ascii=False)} and remove it here"


def _meaning_of(entry: Value, value: Any) -> str:
    """Return the meaning of a value in the stack file; empty if the setting has the same value."""
    if isinstance(value, bool | str) and value in entry.means:
        return entry.means[value]
    return entry.means.get("any", "")


def _cure_of_files(entry: Value, value: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    """Return the cure of files that are texts in a mapping; one file applies to all nodes."""
    if not value:
        return f"{REMOVE}: an empty mapping has no effect"
    names = [value_at(document, entry.files), "default", next(iter(value))]
    first = next(name for name in names if name in value)
    others = f", its other files to {entry.setting}s" if len(value) > 1 else ""
    return f'move its file "{first}" to {entry.setting}{others}'


def _cure_of_collection(entry: Value, value: Any) -> str:
    if entry.type not in ("names", "references"):
        return move_to(entry.setting or "")
    names = [item.get("name") if isinstance(item, Mapping) else item for item in value]
    if not names:
        return f"{REMOVE}: an empty list has no effect"
    return f"write {entry.setting}: {names[0]} and remove it here"
