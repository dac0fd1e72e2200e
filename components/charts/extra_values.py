"""Values of a chart that no setting of ours has, given as the chart names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from components.base.model import FrozenDict
from components.charts.value_types import type_of
from policies.faults import refuse, show


def frozen(value: Any) -> Any:
    """A tree of mappings and lists that can't be changed, and can be hashed."""
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(frozen(item) for item in value)
    return value


def plain(value: Any) -> Any:
    """The same tree of plain dicts and lists, for JSON and for comparison."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def merged(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `extra` laid over it, mappings key by key as Helm lays values.

    Lists are replaced as Helm replaces them, but for `env`: there each variable is laid over the
    one of its name, so that one more variable doesn't take the others away.
    """
    result = dict(base)
    for key, value in extra.items():
        below = result.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            result[key] = merged(below, value)
        elif key == "env" and isinstance(below, list) and isinstance(value, list | tuple):
            named = {variable["name"]: plain(variable) for variable in (*below, *value)}
            result[key] = list(named.values())
        else:
            result[key] = plain(value)
    return result


def _resources(value: Mapping[str, Any]) -> Any:
    kind = type_of("resources")
    if not kind.holds(value):
        raise refuse(show(dict(value)), kind.wanted, "write {limits: {memory: 100Mi}}, for example")
    return frozen(value)


ExtraValues = Annotated[dict[str, Any], AfterValidator(frozen)]
Resources = Annotated[
    dict[str, Any], AfterValidator(_resources), Field(description="limits and requests")
]
