"""Check a release's values against the chart's own default values, templates and schema.

The check is for chart versions that this program does not know and that the user accepts with
`unknownVersion: true`. It finds values without effect, because Helm ignores a value that no
template reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpu_cluster.charts.contents import ChartContents
from gpu_cluster.charts.extra_values import merged, plain, value_at
from gpu_rules.printable import printable

SHOWN = 200
"""Maximum number of characters of the schema's message."""


def unread(chart: ChartContents, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the paths of values that neither the chart's default values nor its templates contain.

    False, empty and null values are skipped, because they enable nothing.

    Args:
        prefix: Path of the values in the parent chart's values, with a dot at its end.
    """
    for key, value in values.items():
        if below := chart.subcharts.get(key):
            inner = unread(below, value if isinstance(value, Mapping) else {}, f"{key}.")
            yield from (f"{prefix}{path}" for path in inner if path not in chart.read)
        elif key != "global":
            for path in _walk_value_paths(key, value, chart):
                if not _is_read(chart, path):
                    yield f"{prefix}{path}"


def refused_by_schema(chart: ChartContents, values: Mapping[str, Any]) -> str:
    """Return the first error of the values against the chart's JSON schema; empty without errors.

    A schema that is invalid, or that refers to other documents, is not used.
    """
    if chart.schema is None:
        return ""
    # jsonschema is imported only for charts with a schema.
    from jsonschema import Draft7Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    document = merged(plain(chart.values), values)
    # The empty registry prevents that a `$ref` in the schema is fetched from the network.
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


def _walk_value_paths(path: str, value: Any, chart: ChartContents) -> Iterator[str]:
    if isinstance(value, Mapping) and value and path not in chart.read:
        inside = value_at(chart.values, path, _NOTHING)
        # A mapping that is empty in the chart's values, such as labels, accepts any key.
        if isinstance(inside, Mapping) and not inside:
            yield path
            return
        for key, item in value.items():
            yield from _walk_value_paths(f"{path}.{key}", item, chart)
    elif value not in (False, None, "", {}, [], ()):
        yield path


def _is_read(chart: ChartContents, path: str) -> bool:
    steps = path.split(".")
    prefixes = {".".join(steps[:length]) for length in range(1, len(steps) + 1)}
    if prefixes & chart.read or value_at(chart.values, path, _NOTHING) is not _NOTHING:
        return True
    # A value may replace a list or a text of the chart by a mapping, whose keys are then read.
    return any(
        not isinstance(value_at(chart.values, prefix, _NOTHING), Mapping | _Nothing)
        for prefix in prefixes
    )


class _Nothing:
    """Type of `_NOTHING`, the result for a path that does not exist in a chart's values."""


_NOTHING = _Nothing()
