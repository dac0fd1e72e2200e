"""Values of every setting of a model, made from the model's own types and examples."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import NoneType
from typing import Any, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from gpu_cluster.base.model import Model


def samples(model: type[Model]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield documents of a model that set one setting each, with the setting's path.

    Settings that a nested model requires are set, too.
    """
    for name, field in model.model_fields.items():
        alias = field.alias or name
        for path, value in _values(field):
            yield f"{alias}{path}", {alias: value}


def _values(field: FieldInfo) -> Iterator[tuple[str, Any]]:
    """Yield values of a setting; each with the path below the setting."""
    for option in _options(field.annotation):
        if isinstance(option, type) and issubclass(option, Model):
            needed = _needed(option)
            yield from (("", needed),) if needed else ()
            for path, document in samples(option):
                yield f".{path}", {**needed, **document}
        elif option is bool:
            yield from (("", False), ("", True))
        elif isinstance(option, type) and issubclass(option, Enum):
            yield from (("", member.value) for member in option)
        else:
            yield from (("", value) for value in _examples(field))


def _options(annotation: Any) -> tuple[Any, ...]:
    origin, options = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _options(options[0])
    if options and origin not in (tuple, list, dict):
        return tuple(
            each for option in options for each in _options(option) if each is not NoneType
        )
    return (annotation,)


def _examples(field: FieldInfo) -> list[Any]:
    """Return the examples of a setting, which are YAML; a text stays a text if the type is one."""
    is_text = str in _options(field.annotation)
    return [_parse(each, is_text=is_text) for each in field.examples or _inner(field.annotation)]


def _inner(annotation: Any) -> list[Any]:
    """Return the examples of a type that has them itself, such as `Port`."""
    options = get_args(annotation)
    own = [each.examples for each in options if isinstance(each, FieldInfo) and each.examples]
    return next(iter(own), next(filter(None, map(_inner, options)), []))


def _parse(example: Any, *, is_text: bool) -> Any:
    if not isinstance(example, str):
        return example
    try:
        value = yaml.safe_load(example)
    except yaml.YAMLError:
        return example
    return example if is_text and not isinstance(value, str) else value


def _needed(model: type[Model]) -> dict[str, Any]:
    """Return the settings that a model requires."""
    return {
        field.alias or name: next(value for _, value in _values(field))
        for name, field in model.model_fields.items()
        if field.is_required()
    }
