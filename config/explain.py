"""From pydantic's errors to problems in the words of the product."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import ErrorDetails

from config.keys import field_at, fields, model_at, nearest, places, plain, similarity
from config.problem import NOTHING, Location, Problem, problem, show

_SECRET = ("privatekey", "password", "passphrase", "token", "secret", "credential")
_SECRET_CURE = (
    "remove it here (it is known to all who read this file), make a new one, and run"
    " `pulumi config set --secret gpu-cluster:sshPrivateKey < key`"
)
_LIKE_ENOUGH = 0.6


def explain(error: ErrorDetails, document: Mapping[str, Any]) -> Iterator[Problem]:
    """The problems that one error stands for: one, or all of the rules between parts."""
    location = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "cross":
            yield from context["problems"]
        case "refused":
            yield problem(location, context["found"], context["wanted"], context["cure"])
        case "extra_forbidden":
            yield _unknown_key(location, error["input"])
        case "missing":
            yield _missing(location)
        case _:
            yield _wrong_value(location, error)


def _unknown_key(location: Location, value: object) -> Problem:
    key = str(location[-1])
    if any(word in plain(key) for word in _SECRET) or plain(key) == "secure":
        return problem(
            location,
            "a secret inside the structured key (not repeated here)",
            "secrets only under keys of their own, encrypted",
            _SECRET_CURE,
        )
    model = model_at(location[:-1])
    known = list(fields(model)) if model is not None else []
    near = nearest(key, known)
    elsewhere = [path for path in places().get(plain(key), ()) if plain(near) != plain(key)]
    if similarity(key, near) >= _LIKE_ENOUGH and not elsewhere:
        cure = f'write "{near}"'
    elif elsewhere:
        cure = f'move it to {" or ".join(elsewhere)}; the nearest key here is "{near}"'
    else:
        cure = f'remove it; the nearest key here is "{near}"'
    return problem(location, f'an unknown key "{key}"', f"one of {', '.join(known)}", cure)


def _missing(location: Location) -> Problem:
    field = field_at(location)
    example = f": {field.examples[0]}" if field is not None and field.examples else ""
    return problem(
        location,
        NOTHING,
        (field.description if field is not None else None) or "a value",
        f'add "{location[-1]}{example}"' if example else f'add "{location[-1]}:"',
    )


def _wrong_value(location: Location, error: ErrorDetails) -> Problem:
    field = field_at(location)
    value = error["input"]
    wanted = (field.description if field is not None else None) or error["msg"].lower()
    example = field.examples[0] if field is not None and field.examples else None
    if isinstance(location[-1], int) and wanted.startswith("a list of "):
        wanted = "one item of " + wanted.removeprefix("a ")
    kind = error["type"]
    if kind == "string_type" and isinstance(value, bool | int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        cure = f'put it in quotes: "{text}"'
        if wanted.startswith("a mapping of "):
            wanted = "a text, as every label value is"
    elif kind in ("int_type", "bool_type") and isinstance(value, str) and _is_plain(value, kind):
        cure = f"write {value} without quotes"
    elif kind in ("enum", "literal_error") and isinstance(value, str) and wanted != "v1":
        choices = [c.strip(" '") for c in _expected(error).replace(" or ", ", ").split(",")]
        cure = f'write "{nearest(value, choices)}"'
    elif example is not None:
        cure = f"write {example}, for example"
    elif kind in ("too_short", "string_too_short"):
        cure = "add one, or leave the key out where it may be left out"
    else:
        cure = f"write {wanted}"
    return problem(location, show(value), wanted, cure)


def _expected(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("expected", ""))


def _is_plain(value: str, kind: str) -> bool:
    return value.isdecimal() if kind == "int_type" else value in ("true", "false")
