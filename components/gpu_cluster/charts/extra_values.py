"""Additional Helm values in the chart's own notation, for which the stack file has no setting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gpu_cluster.base.model import FrozenDict
from gpu_cluster.charts.value_types import type_of
from gpu_rules.faults import refuse, show


def frozen(value: Any) -> Any:
    """Return an immutable and hashable copy of nested mappings and lists."""
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return value


def plain(value: Any) -> Any:
    """Return a copy of nested mappings and lists that consists of plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def value_at(values: Mapping[str, Any], path: str, missing: Any = None) -> Any:
    """Return the value at a path such as `driver.version`.

    Args:
        missing: Result for a path that does not exist in the values.
    """
    value: Any = values
    for step in path.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return missing
        value = value[step]
    return value


def merged(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` overridden by `extra`; mappings are merged key by key, as Helm merges values.

    Lists are replaced, as Helm does, except for `env`: a variable replaces only the variable of the
    same name, so that an additional variable doesn't remove the others.
    """
    result = dict(base)
    for key, value in extra.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merged(below, value)
        elif key == "env" and isinstance(below, list) and isinstance(value, list | tuple):
            by_name = {variable["name"]: plain(variable) for variable in (*below, *value)}
            result[key] = list(by_name.values())
        else:
            result[key] = plain(value)
    return result


def _validate_resources(value: Mapping[str, Any]) -> Any:
    kind = type_of("resources")
    if not kind.holds(value):
        raise refuse(show(dict(value)), kind.wanted, "write {limits: {memory: 100Mi}}, for example")
    return frozen(value)


ExtraValues = Annotated[dict[str, Any], AfterValidator(frozen)]
Resources = Annotated[
    dict[str, Any], AfterValidator(_validate_resources), Field(description="limits and requests")
]
