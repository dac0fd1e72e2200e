"""Translate pydantic's validation errors into faults with instructions for the user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pydantic_core import ErrorDetails, ValidationError

from gpu_cluster.base.confidential import is_confidential, refused
from gpu_cluster.base.keys import field_at, fields, model_at, near_places
from gpu_cluster.base.model import MissingCure, Model
from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, plain, similarity
from gpu_rules.faults import NOTHING, Fault, Location, fault, show


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first wrong value, such as `nodes.0.name`, and what is wrong.

    The message does not contain the value, which may be secret.
    """
    details = error.errors(include_input=False, include_url=False)[0]
    return ".".join(map(str, details["loc"])), details["msg"]


def explain_all(root: type[Model], errors: Iterable[ErrorDetails]) -> list[Fault]:
    """Return the faults for pydantic's errors, without duplicates and without consequential errors.

    A required key that is missing because it was misspelled is a consequential error.

    Args:
        root: Model of the whole document.
        errors: Errors that pydantic reported for the document.
    """
    errors = tuple(errors)
    mistyped = {
        (*at[:-1], near)
        for at in (item["loc"] for item in errors if item["type"] == "extra_forbidden")
        if (near := _nearest_key(root, at)) is not None
    }
    return [
        problem
        for item in errors
        if not (item["type"] == "missing" and item["loc"] in mistyped)
        for problem in _explain_error(root, item)
    ]


def _nearest_key(root: type[Model], location: Location) -> str | None:
    """Return the valid key that is most similar to a wrong key, or None without a similar key."""
    model = model_at(root, location[:-1])
    if model is None:
        return None
    near = nearest(str(location[-1]), fields(model))
    return near if similarity(str(location[-1]), near) >= LIKE_ENOUGH else None


def _explain_error(root: type[Model], error: ErrorDetails) -> Iterator[Fault]:
    """Yield the fault for one pydantic error, or nothing for a consequential error."""
    location = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "refused":
            yield fault(location, context["found"], context["wanted"], context["cure"])
        case "extra_forbidden" | "invalid_key":
            yield _unknown_key(root, location, error["input"])
        case "missing":
            yield _missing_key(root, location)
        case "too_short" if len(error["input"]) >= context["min_length"]:
            return  # The list is long enough; its invalid items have their own errors.
        case _:
            yield _wrong_value(root, location, error)


def _unknown_key(root: type[Model], location: Location, value: object) -> Fault:
    key = str(location[-1])
    if is_confidential(key):
        return refused(location, "inside the structured key")
    model = model_at(root, location[:-1])
    known_keys = list(fields(model)) if model is not None else []
    near = nearest(key, known_keys)
    elsewhere = near_places(root, key, location[:-1]) if plain(near) != plain(key) else []
    if similarity(key, near) >= LIKE_ENOUGH and not elsewhere:
        cure = f'write "{near}"'
    elif elsewhere:
        cure = f'move it to {" or ".join(elsewhere)}; the nearest key here is "{near}"'
    else:
        cure = f'remove it; the nearest key here is "{near}"'
    return fault(location, f'an unknown key "{key}"', f"one of {', '.join(known_keys)}", cure)


def _missing_key(root: type[Model], location: Location) -> Fault:
    field = field_at(root, location)
    example = f": {field.examples[0]}" if field is not None and field.examples else ":"
    metadata = field.metadata if field is not None else ()
    cures = [entry.text for entry in metadata if isinstance(entry, MissingCure)]
    return fault(
        location,
        NOTHING,
        (field.description if field is not None else None) or "a value",
        cures[0] if cures else f'add "{location[-1]}{example}"',
    )


def _wrong_value(root: type[Model], location: Location, error: ErrorDetails) -> Fault:
    field = field_at(root, location)
    value = error["input"]
    wanted = (field.description if field is not None else None) or _in_mapping(error)
    example = field.examples[0] if field is not None and field.examples else None
    if isinstance(location[-1], int) and wanted.startswith("a list of "):
        wanted = f"an item of {wanted}"
    kind = error["type"]
    if kind == "string_type" and isinstance(value, bool | int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        cure = f'put it in quotes: "{text}"'
    elif kind in ("int_type", "bool_type") and isinstance(value, str) and _is_plain(value, kind):
        cure = f"write {value} without quotes"
    elif kind in ("enum", "literal_error") and isinstance(value, str) and wanted != "v1":
        choices = [c.strip(" '") for c in _expected_text(error).replace(" or ", ", ").split(",")]
        cure = f'write "{nearest(value, choices)}"'
    elif example is not None:
        cure = f"write {example}, for example"
    elif kind in ("too_short", "string_too_short"):
        cure = "add one" if field is None or field.is_required() else "add one, or leave it out"
    else:
        cure = f"write {wanted}"
    return fault(location, show(value), wanted, cure)


def _in_mapping(error: ErrorDetails) -> str:
    return "a text" if error["type"] == "string_type" else error["msg"].lower()


def _expected_text(error: ErrorDetails) -> str:
    return str(error.get("ctx", {}).get("expected", ""))


def _is_plain(value: str, kind: str) -> bool:
    return value.isdecimal() if kind == "int_type" else value in ("true", "false")
