"""Check values against the chart's own values, templates and schema.

A chart version that this program does not know is accepted by consent. Helm ignores a value that no
template reads, so this check finds the values that would have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft7Validator, SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable

from components.charts.contents import ChartContents
from components.charts.extra_values import merged, plain
from policies.printable import printable

SHOWN = 200
"""Maximum number of characters of the schema's message."""


def unread(chart: ChartContents, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of values that neither the chart's values nor its templates contain.

    Values that turn nothing on (false, empty or null) are left out: they state the chart's default.

    Args:
        chart: The chart.
        values: Values of the release.
        prefix: Path of the values in the parent chart's values, with a dot at its end.
    """
    for key, value in values.items():
        if below := chart.subcharts.get(key):
            inner = unread(below, value if isinstance(value, Mapping) else {}, f"{key}.")
            yield from (f"{prefix}{path}" for path in inner if path not in chart.read)
        elif key != "global":
            for path in _leaves(key, value, chart):
                if not _is_read(chart, path):
                    yield f"{prefix}{path}"


def refused_by_schema(chart: ChartContents, values: Mapping[str, Any]) -> str:
    """Return the first reason why the chart's own schema refuses the values; empty for none.

    A schema that is not valid, or that refers to other documents, is not used.
    """
    if chart.schema is None:
        return ""
    document = merged(plain(chart.values), values)
    # Without this registry a reference in the schema would be fetched from the network.
    validator = Draft7Validator(chart.schema, registry=Registry())
    try:
        Draft7Validator.check_schema(chart.schema)
        error = next(iter(validator.iter_errors(document)), None)
    except (SchemaError, Unresolvable, re.error, RecursionError):
        return ""
    if error is None:
        return ""
    place = ".".join(map(str, error.absolute_path)) or "the values"
    return printable(f"{place}: {error.message}", SHOWN)


def _leaves(path: str, value: Any, chart: ChartContents) -> Iterator[str]:
    if isinstance(value, Mapping) and value and path not in chart.read:
        inside = _at(chart.values, path)
        # A mapping that the chart leaves empty, such as labels, takes any key.
        if isinstance(inside, Mapping) and not inside:
            yield path
            return
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item, chart)
    elif value not in (False, None, "", {}, [], ()):
        yield path


def _is_read(chart: ChartContents, path: str) -> bool:
    steps = path.split(".")
    prefixes = {".".join(steps[:length]) for length in range(1, len(steps) + 1)}
    if prefixes & chart.read or _at(chart.values, path) is not _NOTHING:
        return True
    # A list or a text of the chart may be replaced as a whole.
    return any(not isinstance(_at(chart.values, one), Mapping | _Nothing) for one in prefixes)


class _Nothing:
    """Type of the result for a path that does not exist."""


_NOTHING = _Nothing()


def _at(values: Mapping[str, Any], path: str) -> Any:
    value: Any = values
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return _NOTHING
        value = value[step]
    return value
