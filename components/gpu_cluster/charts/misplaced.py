"""Find the right path of a Helm value whose given path the chart does not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, plain, similarity
from gpu_cluster.charts.value_table import Table

# Lowest similarity (0 to 1) at which a key counts as a misspelling of a key in the same section,
# even if a key in another section is spelled exactly like it.
MISSPELT = 0.9
# Maximum number of suggested paths. A key in more sections, such as `enabled`, is too common.
COMMON = 3

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def cure(table: Table, path: str, value: Any) -> str:
    """Return an instruction to the user for a value whose path the chart does not read.

    The function first looks for a misspelled key in the same section. Otherwise it searches all
    paths of the chart and all settings of the stack file for the same words.

    Args:
        table: The values that the chart reads.
        path: Path of the value; its sections exist in the chart, its last key does not.
    """
    if value is None:
        return "remove it"
    section, _, key = path.rpartition(".")
    known_keys = table.below(section)
    near = nearest(key, known_keys) if known_keys else ""
    likeness = similarity(key, near) if near else 0.0
    if likeness >= MISSPELT:
        return f'write "{near}"'
    if places := _similar_places(table, path, value):
        return _write_advice(table, places, section)
    if likeness >= LIKE_ENOUGH and not set(_path_words(key)) <= _known_words(table):
        return f'write "{near}"'
    if setting := next(_settings_with_key(table, key), ""):
        return f"write {setting} of the stack file"
    for dead in table.dead.values():
        if _is_same_key(dead.path.split(".")[-1:], key):
            return dead.instead
    if near and likeness >= LIKE_ENOUGH:
        return f'remove it; the nearest key is "{near}"'
    return "remove it"


def _write_advice(table: Table, places: list[str], section: str) -> str:
    if len(places) > COMMON:
        owner = section or "the chart"
        return f"remove it: {owner} has no such value"
    entry = table.values.get(places[0])
    if entry and entry.setting:
        return entry.cure or f"write {entry.setting} of the stack file"
    other_places = f", or {' or '.join(places[1:])}" if len(places) > 1 else ""
    return f"write {places[0]}{other_places}"


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


def _settings_with_key(table: Table, key: str) -> Iterator[str]:
    """Yield the paths of the stack file's settings that end with the given key."""
    for value in table.values.values():
        steps = (value.setting or "").split(".")
        for length in range(2, len(steps) + 1):
            if plain(steps[length - 1]) == plain(key):
                yield ".".join(steps[:length])


def _path_words(text: str) -> list[str]:
    """Return the words of a path in lower case: `a.driverRoot` has the words a, driver, root."""
    return [word.lower() for word in _WORD.findall(text)]


def _known_words(table: Table) -> set[str]:
    return set(_all_words(table.values))


def _all_words(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from _path_words(path)
