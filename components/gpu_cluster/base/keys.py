"""Look up which keys a pydantic model allows at each location of a document."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from functools import cache
from itertools import takewhile

from pydantic.fields import FieldInfo

from gpu_cluster.base.model import Model
from gpu_cluster.base.nearness import plain
from gpu_rules.faults import Location


def model_at(root: type[Model], location: Location) -> type[Model] | None:
    """Return the model of the mapping at a location, or None if no model describes it."""
    model: type[Model] | None = root
    is_name = False  # True if `step` is a name in a mapping of names to models.
    for step in location:
        if isinstance(step, int) or is_name:
            is_name = False
            continue
        field = fields(model).get(step) if model is not None else None
        model = _model_in(field.annotation) if field is not None else None
        is_name = field is not None and model is not None and _is_mapping(field.annotation)
    return model


def field_at(root: type[Model], location: Location) -> FieldInfo | None:
    """Return the model field that the last key of a location names; None if there is no field."""
    names = [index for index, step in enumerate(location) if isinstance(step, str)]
    if not names:
        return None
    last = names[-1]
    model = model_at(root, location[:last])
    return fields(model).get(str(location[last])) if model is not None else None


@cache
def fields(model: type[Model]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their YAML keys."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def near_places(root: type[Model], key: str, location: Location) -> list[str]:
    """Return the paths where a key is allowed, and of these the nearest to a location.

    The nearest paths have the most leading keys in common with the location.
    """
    place = [str(step) for step in location]
    matches = [
        (
            sum(
                1
                for _ in takewhile(lambda pair: pair[0] == pair[1], zip(place, steps, strict=False))
            ),
            path,
        )
        for path in places(root).get(plain(key), ())
        for steps in [path.replace("[]", "").split(".")]
    ]
    best = max((shared for shared, _ in matches), default=0)
    return [path for shared, path in matches if shared == best]


@cache
def places(root: type[Model]) -> dict[str, tuple[str, ...]]:
    """Return the paths where each key is allowed: `{"gpuspernode": ("pools[].gpusPerNode",)}`."""
    result: dict[str, tuple[str, ...]] = {}
    for key, path in _walk(root, ""):
        result[plain(key)] = (*result.get(plain(key), ()), path)
    return result


def _walk(model: type[Model], prefix: str) -> Iterator[tuple[str, str]]:
    for key, field in fields(model).items():
        yield key, f"{prefix}{key}"
        below = _model_in(field.annotation)
        if below is not None:
            step = "[]." if _is_list(field.annotation) else "."
            step = ".<name>." if _is_mapping(field.annotation) else step
            yield from _walk(below, f"{prefix}{key}{step}")


def _model_in(annotation: object) -> type[Model] | None:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    for argument in typing.get_args(annotation):
        if (model := _model_in(argument)) is not None:
            return model
    return None


def _is_list(annotation: object) -> bool:
    return typing.get_origin(annotation) is tuple


def _is_mapping(annotation: object) -> bool:
    return typing.get_origin(annotation) is dict
