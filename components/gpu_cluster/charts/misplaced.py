"""Find the right path of a Helm value whose given path the chart does not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.base.document_cures import ONE_LEVEL_UP, REMOVE, is_umbrella, move_to, rename_to
from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, plain, similarity
from gpu_cluster.charts.value_cures import set_by_stack
from gpu_cluster.charts.value_table import Table, Value
from gpu_cluster.charts.value_types import type_of

# Lowest similarity (0 to 1) at which a key counts as a misspelling of a key in the same section,
# even if a key in another section is spelled exactly like it.
MISSPELT = 0.9
# Maximum number of suggested paths. A key in more sections, such as `enabled`, is too common.
COMMON = 3

# Names that other charts have for a part that this chart turns on by another value.
_ALIASES = {"nodeFeatureDiscovery": "nfd.enabled", "node-feature-discovery": "nfd.enabled"}

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def cure(table: Table, path: str, value: Any) -> str:
    """Return an instruction to the user for a value whose path the chart does not read.

    A mapping whose keys the chart reads here, as below the chart's name in an umbrella chart, is to
    be moved one level up. Otherwise the function looks for a misspelled key in the same section,
    then for the same words in all paths of the chart and all settings of the stack file. It
    suggests a path only if the chart reads what the value contains there.

    Args:
        table: The values that the chart reads.
        path: Path of the value; its sections exist in the chart, its last key does not.
    """
    if value is None:
        return REMOVE
    section, _, key = path.rpartition(".")
    known_keys = table.below(section)
    free = [one for one in known_keys if not _is_decided(table, section, one)]
    if is_umbrella(value, known_keys) and set(value) & set(free):
        return ONE_LEVEL_UP
    near = nearest(key, known_keys) if known_keys else ""
    near_path = _path_below(section, near)
    if near and not _reads(table, near_path, value):
        near = ""
    likeness = similarity(key, near) if near else 0.0
    if likeness >= MISSPELT:
        return _renamed(table, near_path, value)
    for known, meaning in _ALIASES.items():
        if plain(key) == plain(known) and isinstance(value, Mapping) and set(value) == {"enabled"}:
            return _moved(table, meaning, value["enabled"])
    if places := _similar_places(table, path, value):
        return _write_advice(table, places, section, value)
    if likeness >= LIKE_ENOUGH and not set(_path_words(key)) <= _known_words(table):
        return _renamed(table, near_path, value)
    if setting := next(_settings_with_key(table, key), None):
        return _moved(table, setting.path, value)
    for dead in table.dead.values():
        if _is_same_key(dead.path.split(".")[-1:], key):
            return dead.instead
    if near and likeness >= LIKE_ENOUGH:
        return f'{REMOVE}; the nearest key is "{near}"'
    return REMOVE


def _path_below(section: str, key: str) -> str:
    """Return the path of a key in a section; the path of the whole chart's section is empty."""
    return f"{section}.{key}" if section else key


def _is_decided(table: Table, section: str, key: str) -> bool:
    """Return True if a setting of the stack file decides the value of a key in a section."""
    entry = table.values.get(_path_below(section, key))
    return entry is not None and entry.setting is not None


def _reads(table: Table, path: str, value: Any) -> bool:
    """Return True if the chart reads the value at a path, or any value below it."""
    if path in table.values:
        return type_of(table.values[path].type).holds(value)
    if not isinstance(value, Mapping):
        return False
    return all(f"{path}.{key}" in table.values or table.leads_on(f"{path}.{key}") for key in value)


def _write_advice(table: Table, places: list[str], section: str, value: Any) -> str:
    if len(places) > COMMON:
        return f"{REMOVE}: {section or 'the chart'} has no such value"
    moved = _moved(table, places[0], value)
    others = "".join(f", or {_moved(table, place, value)}" for place in places[1:])
    return moved if moved.startswith(REMOVE) else f"{moved}{others}"


def _renamed(table: Table, path: str, value: Any) -> str:
    """Return the instruction to rename a key, or to write the setting that decides it."""
    entry = table.values.get(path)
    if entry and entry.setting:
        return set_by_stack(entry, value, {})
    return rename_to(path.rpartition(".")[2])


def _moved(table: Table, path: str, value: Any) -> str:
    """Return the instruction to move a value to a path of the chart, or to the path's setting."""
    entry = table.values.get(path)
    if entry and entry.setting:
        return set_by_stack(entry, value, {})
    return move_to(f"extraValues.{path}")


def _similar_places(table: Table, path: str, value: Any) -> list[str]:
    """Return the chart's own values that a misplaced value may have meant, most similar first.

    These values have the same last key as the misplaced value. Values in the same section of the
    chart are preferred. If the misplaced value is a mapping, the chart's value must have its keys.
    """
    section = path.rpartition(".")[0]
    candidates = sorted(
        _values_with_key(table, path, value), key=lambda place: -similarity(path, place)
    )
    inside = [place for place in candidates if section and place.startswith(f"{section}.")]
    return inside or candidates


def _values_with_key(table: Table, path: str, value: Any) -> Iterator[str]:
    key = path.rpartition(".")[2]
    key_words = _path_words(key)
    inner = {
        known_path.rsplit(".", depth)[0] for known_path in table.values for depth in range(1, 6)
    }
    for known_path in {*table.values, *inner} - {path}:
        steps = known_path.split(".")
        tails = (steps[start:] for start in range(len(steps)))
        if not any(
            _path_words(".".join(tail)) == key_words or _is_same_key(tail, key) for tail in tails
        ):
            continue
        if isinstance(value, Mapping) and known_path not in table.values:
            if set(map(str, value)) <= set(table.below(known_path)):
                yield known_path
        elif known_path in table.values:
            yield known_path


def _is_same_key(tail: list[str], key: str) -> bool:
    return len(tail) == 1 and plain(tail[0]) == plain(key)


def _settings_with_key(table: Table, key: str) -> Iterator[Value]:
    """Yield the values whose setting of the stack file ends with the given key."""
    for value in table.values.values():
        section, _, last = (value.setting or "").rpartition(".")
        if section and plain(last) == plain(key):
            yield value


def _path_words(text: str) -> list[str]:
    """Return the words of a path in lower case: `a.driverRoot` has the words a, driver, root."""
    return [word.lower() for word in _WORD.findall(text)]


def _known_words(table: Table) -> set[str]:
    return set(_all_words(table.values))


def _all_words(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from _path_words(path)
