"""The keys that a document may have at each place, and the nearest one to a wrong key."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Iterator
from functools import cache

from pydantic.fields import FieldInfo

from config.cluster import Cluster
from config.model import Model
from config.problem import Location


def model_at(location: Location) -> type[Model] | None:
    """The model that describes the mapping at a place, or None where there is none."""
    model: type[Model] | None = Cluster
    for step in location:
        if isinstance(step, int):
            continue
        field = fields(model).get(step) if model is not None else None
        model = _model_in(field.annotation) if field is not None else None
    return model


def field_at(location: Location) -> FieldInfo | None:
    """The field that the last key of a location names; positions in lists do not count."""
    names = [index for index, step in enumerate(location) if isinstance(step, str)]
    if not names:
        return None
    last = names[-1]
    model = model_at(location[:last])
    return fields(model).get(str(location[last])) if model is not None else None


@cache
def fields(model: type[Model]) -> dict[str, FieldInfo]:
    """A model's fields by their keys in YAML."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def nearest(word: str, words: Iterable[str]) -> str:
    """The word most like `word`: by the longest matching parts, capital letters not counting."""
    return max(words, key=lambda known: similarity(word, known))


def similarity(one: str, other: str) -> float:
    """From 0 (nothing in common) to 1 (the same but for capitals, '-' and '_')."""
    return difflib.SequenceMatcher(None, plain(one), plain(other), autojunk=False).ratio()


def plain(word: str) -> str:
    """A key without capitals and separators: `gpus_per_node` as `gpuspernode`."""
    return word.lower().replace("-", "").replace("_", "")


@cache
def places() -> dict[str, tuple[str, ...]]:
    """Where each key may stand: `{"gpuspernode": ("pools[].gpusPerNode",)}`."""
    found: dict[str, tuple[str, ...]] = {}
    for key, path in _walk(Cluster, ""):
        found[plain(key)] = (*found.get(plain(key), ()), path)
    return found


def _walk(model: type[Model], prefix: str) -> Iterator[tuple[str, str]]:
    for key, field in fields(model).items():
        yield key, f"{prefix}{key}"
        below = _model_in(field.annotation)
        if below is not None:
            step = "[]." if _is_list(field.annotation) else "."
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
