"""Check Helm values for unknown, unused and mistyped keys, and for conflicts with settings.

Each cure has a form of `gpu_cluster.base.document_cures`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpu_cluster.base.document_cures import move_to
from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, similarity
from gpu_cluster.charts.misplaced import cure
from gpu_cluster.charts.value_cures import set_by_stack
from gpu_cluster.charts.value_table import NOTHING, Table, Value
from gpu_cluster.charts.value_types import choices, type_of
from gpu_rules.faults import Fault, Location, fault, show
from gpu_rules.printable import printable


def check(
    table: Table,
    values: Mapping[str, Any],
    at: Location,
    *,
    decided: bool = True,
    complete: bool = True,
) -> Iterator[Fault]:
    """Yield all faults in a chart's values.

    Args:
        table: The values that the chart reads.
        values: The values to check.
        at: Location of the values in the stack file.
        decided: True to reject values that a setting of the stack file already sets, as in
            `extraValues`. False to check only the values themselves.
        complete: False if the table is for a similar chart version. The declared version may read
            other values, so the check then accepts values that the table lacks.
    """
    yield from _check_values_below(table, values, "", at, decided, complete, values)


def _check_values_below(
    table: Table,
    values: Mapping[str, Any],
    prefix: str,
    at: Location,
    decided: bool,
    complete: bool,
    document: Mapping[str, Any],
) -> Iterator[Fault]:
    known_keys = table.below(prefix)
    for key, value in values.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        location = (*at, str(key))
        if "." in str(key):
            yield _unknown_value_key(table, path, str(key), value, known_keys, location)
        elif path in table.values:
            yield from _check_leaf(table, path, value, location, decided, document)
        elif isinstance(value, Mapping) and table.leads_on(path) and path not in table.dead:
            yield from _check_values_below(
                table, value, path, location, decided, complete, document
            )
        elif not complete:
            continue
        elif path in table.dead:
            yield from _check_dead_value(table, path, value, location)
        elif since := next((table.later[p] for p in table.later if _is_under(p, path)), None):
            yield fault(
                location,
                f"{path}, which the chart reads since {since}",
                f"a value that {table.chart} {table.series}.x reads",
                f'write "version: {since}.0", or remove {path}',
            )
        elif key in known_keys:
            below = table.below(path)
            yield fault(
                location,
                show(value),
                f"a mapping with some of {', '.join(below)}",
                f'write "{below[0]}" below {path}',
            )
        else:
            yield _unknown_value_key(table, path, str(key), value, known_keys, location)


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}.")


def _check_leaf(
    table: Table,
    path: str,
    value: Any,
    location: Location,
    decided: bool,
    document: Mapping[str, Any],
) -> Iterator[Fault]:
    entry = table.values[path]
    if decided and entry.setting:
        yield fault(
            location,
            show(value),
            f"{path} only from the stack file's own setting: this value would override it silently",
            set_by_stack(entry, value, document),
        )
        return
    value_type = type_of(entry.type)
    if decided and path in table.overrides and value_type.holds(value):
        yield from _check_overrides(table.overrides[path], value, location, document)
    if value is None and value_type.holds(value):
        return
    if (place := _find_null(value, location)) is not None:
        yield fault(
            place,
            "null",
            "a value: Pulumi drops a null before Helm reads it, and the chart's default stays",
            f"remove it, or write {value_type.example}, for example",
        )
        return
    if value_type.holds(value):
        return
    words = choices(entry.type)
    if isinstance(value, str) and words and similarity(value, nearest(value, words)) >= LIKE_ENOUGH:
        advice = f'write "{nearest(value, words)}"'
    elif (
        isinstance(value, str)
        and value in ("true", "false")
        and re.search(r"\btruth\b", entry.type)
    ):
        advice = f"write {value} without quotes; Helm takes every text for true"
    elif isinstance(value, bool | int | float) and re.search(r"\btext\b", entry.type):
        advice = f'put it in quotes: "{str(value).lower() if isinstance(value, bool) else value}"'
    elif isinstance(value, str) and value.isdecimal() and entry.type == "whole":
        advice = f"write {value} without quotes"
    else:
        advice = f"write {value_type.example}, for example"
    yield fault(location, show(value), value_type.wanted, advice)


def _check_overrides(
    known: Mapping[str, Value],
    items: Iterable[Any],
    location: Location,
    document: Mapping[str, Any],
) -> Iterator[Fault]:
    """Yield a fault for each variable or argument in a list that overrides a setting."""
    for index, (name, text) in enumerate(map(_read_assignment, items)):
        if entry := known.get(name):
            is_truth = entry.type == "truth" and text in ("true", "false")
            yield fault(
                (*location, index),
                printable(f"{name}={text}", 200),
                f"{entry.path} only from the stack file's own setting: this value would "
                "override it silently",
                set_by_stack(entry, text == "true" if is_truth else text, document),
            )


def _read_assignment(item: Any) -> tuple[str, str]:
    """Return the name and the text of a variable, or of an argument such as `--name=text`."""
    if isinstance(item, Mapping):
        return item["name"], item.get("value", "")
    name, is_assigned, text = item.removeprefix("-").removeprefix("-").partition("=")
    return name, text if is_assigned else "true"


def _check_dead_value(table: Table, path: str, value: Any, location: Location) -> Iterator[Fault]:
    dead = table.dead[path]
    if dead.unread is not NOTHING and value == dead.unread:
        return
    reading = "no version of the chart reads" if dead.was == "never" else "the chart read up to "
    yield fault(
        location,
        f"{path}, which {reading}{'' if dead.was == 'never' else dead.was}",
        f"a value that {table.chart} {table.series}.x reads",
        dead.instead,
    )


def _unknown_value_key(
    table: Table, path: str, key: str, value: Any, known_keys: list[str], location: Location
) -> Fault:
    unknown = f'an unknown key "{key}"'
    wanted = f"one of {', '.join(known_keys)}" if known_keys else "a value that the chart reads"
    if key in table.values or ("." in key and table.leads_on(key)):
        return fault(
            location,
            unknown,
            wanted,
            f"{move_to(f'extraValues.{key}')}; a dot in a key is a character",
        )
    return fault(location, unknown, wanted, cure(table, path, value))


def _find_null(value: Any, location: Location) -> Location | None:
    """Return the location of the first null in a value; None if it contains none."""
    if value is None:
        return location
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    inner = (
        _find_null(item, (*location, key if isinstance(key, int) else str(key)))
        for key, item in items
    )
    return next((place for place in inner if place is not None), None)
