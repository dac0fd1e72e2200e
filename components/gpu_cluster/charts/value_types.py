"""Types of Helm values, as templates and Kubernetes interpret them.

The tables of values write a type as a word of `TYPES`, as a choice of texts (`a|b`), or as several
types joined by ` or `. Charts validate little: a template treats the text "false" as true, and
accepts a number as a version.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_DURATION = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_SHARE = re.compile(r"\d+%?")


@dataclass(frozen=True)
class Type:
    """A type of Helm values.

    Attributes:
        holds: Function that returns True if a value has the type.
        wanted: Description of the type for messages.
        example: A value of the type, as YAML.
    """

    holds: Callable[[Any], bool]
    wanted: str
    example: str


def _is_kind(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind)


def _is_whole_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _matches_pattern(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(holds(item) for item in value)


def _is_mapping_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and all(isinstance(key, str) and holds(item) for key, item in value.items())
    )


def _has_only_keys(*allowed: str, needed: tuple[str, ...] = ()) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Mapping)
        and set(value) <= set(allowed)
        and all(key in value for key in needed)
    )


def _is_resources(value: Any) -> bool:
    quantities = _is_mapping_of(lambda item: isinstance(item, str) or _is_whole_number(item))
    return _has_only_keys("limits", "requests", "claims")(value) and all(
        quantities(value[key]) for key in ("limits", "requests") if key in value
    )


def _is_probe(value: Any) -> bool:
    numbers = ("initialDelaySeconds", "periodSeconds", "timeoutSeconds")
    counts = ("failureThreshold", "successThreshold", "grpc")
    return _has_only_keys(*numbers, *counts)(value)


def _is_environment(value: Any) -> bool:
    is_variable = _has_only_keys("name", "value", "valueFrom", needed=("name",))
    return _is_list_of(lambda item: is_variable(item) and isinstance(item.get("value", ""), str))(
        value
    )


_TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")

TYPES: Mapping[str, Type] = {
    "truth": Type(_is_kind(bool), "true or false, without quotes", "true or false"),
    "text": Type(_is_kind(str), "a text; numbers in quotes", '"1.0"'),
    "path": Type(
        lambda value: isinstance(value, str) and (not value or value.startswith("/")),
        "an absolute path",
        "/run/nvidia",
    ),
    "whole": Type(_is_whole_number, "a whole number, without quotes", "1"),
    "number": Type(
        lambda value: type(value) in (int, float) and value >= 0, "a number, without quotes", "1"
    ),
    "port": Type(
        lambda value: _is_whole_number(value) and 0 < value < 65536,
        "a port from 1 to 65535",
        "8080",
    ),
    "share": Type(
        lambda value: _is_whole_number(value) or _matches_pattern(_SHARE)(value),
        'a number of nodes or a share such as "25%"',
        '"25%"',
    ),
    "duration": Type(_matches_pattern(_DURATION), "a duration such as 15s", "15s"),
    "texts": Type(_is_list_of(_is_kind(str)), "a list of texts", "[a]"),
    "names": Type(_is_list_of(_is_kind(str)), "a list of names", "[registry]"),
    "references": Type(
        _is_list_of(_has_only_keys("name", needed=("name",))),
        "a list of mappings with name",
        "[{name: registry}]",
    ),
    "objects": Type(_is_list_of(_is_kind(Mapping)), "a list of mappings", "[{kind: ConfigMap}]"),
    "object": Type(_is_kind(Mapping), "a mapping", "{}"),
    "strings": Type(
        _is_mapping_of(_is_kind(str)), "a mapping of texts to texts; numbers in quotes", '{a: "1"}'
    ),
    "truths": Type(
        _is_mapping_of(_is_kind(bool)), "a mapping of names to true or false", "{a: true}"
    ),
    "env": Type(
        _is_environment,
        "a list of mappings with name and value, both texts",
        '[{name: A, value: "1"}]',
    ),
    "resources": Type(
        _is_resources, "a mapping with limits and requests", "{limits: {memory: 100Mi}}"
    ),
    "tolerations": Type(
        _is_list_of(_has_only_keys(*_TOLERATION)), "a list of tolerations", "[{operator: Exists}]"
    ),
    "probe": Type(
        _is_probe, "a mapping of a probe's seconds and thresholds", "{periodSeconds: 10}"
    ),
    "nothing": Type(lambda value: value in ([], ()), "[] to take the chart's default away", "[]"),
    "null": Type(lambda value: value is None, "null", "null"),
}


@cache
def type_of(text: str) -> Type:
    """Return the type that a text in a table of values describes.

    Raises:
        KeyError: The text contains an unknown word.
    """
    types = [_parse_type(word) for word in text.split(" or ")]
    return Type(
        lambda value: any(kind.holds(value) for kind in types),
        " or ".join(kind.wanted for kind in types),
        types[0].example,
    )


def choices(text: str) -> tuple[str, ...]:
    """Return the texts that a choice such as `a|b` allows; empty for other types."""
    return tuple(
        word
        for alternative in text.split(" or ")
        if "|" in alternative
        for word in alternative.split("|")
    )


def _parse_type(text: str) -> Type:
    if "|" not in text:
        return TYPES[text]
    words = text.split("|")
    wanted = f"{', '.join(words[:-1])} or {words[-1]}"
    return Type(lambda value: value in words, wanted, f'"{words[0]}"')
