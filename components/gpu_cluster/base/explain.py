"""Translate pydantic's validation errors into faults with instructions for the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, ValidationError

from gpu_cluster.base.confidential import is_confidential, refused
from gpu_cluster.base.document_cures import (
    ONE_LEVEL_UP,
    REMOVE,
    is_umbrella,
    move_to,
    rename_to,
)
from gpu_cluster.base.keys import field_at, fields, model_at, near_places
from gpu_cluster.base.model import Model, OwnCure
from gpu_cluster.base.nearness import LIKE_ENOUGH, nearest, plain, similarity
from gpu_rules.faults import NOTHING, Fault, Location, fault, show


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return the path of the first wrong value, such as `nodes.0.name`, and what is wrong.

    The message does not contain the value, which may be secret.
    """
    details = error.errors(include_input=False, include_url=False)[0]
    return ".".join(map(str, details["loc"])), details["msg"]


def explain_all(
    root: type[Model], errors: Iterable[ErrorDetails], document: object = None
) -> list[Fault]:
    """Return the faults for pydantic's errors, without duplicates and without consequential errors.

    A required key that is missing because it was misspelled is a consequential error.

    Args:
        root: Model of the whole document.
        errors: Errors that pydantic reported for the document.
        document: The document, if a cure may depend on what else it has.
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
        for problem in _explain_error(root, item, document)
    ]


def _nearest_key(root: type[Model], location: Location) -> str | None:
    """Return the valid key that is most similar to a wrong key, or None without a similar key."""
    model = model_at(root, location[:-1])
    if model is None:
        return None
    near = nearest(str(location[-1]), fields(model))
    return near if similarity(str(location[-1]), near) >= LIKE_ENOUGH else None


def _explain_error(root: type[Model], error: ErrorDetails, document: object) -> Iterator[Fault]:
    """Yield the fault for one pydantic error, or nothing for a consequential error."""
    location = tuple(step for step in error["loc"] if step != "[key]")
    context = error.get("ctx", {})
    match error["type"]:
        case "refused":
            cure = context["cure"]
            if "[key]" in error["loc"]:
                cure = re.sub(r'^write "', 'rename it to "', cure)
            yield fault(location, context["found"], context["wanted"], cure)
        case "extra_forbidden" | "invalid_key":
            yield _unknown_key(root, location, error["input"], document)
        case "missing":
            yield _missing_key(root, location)
        case "too_short" if len(error["input"]) >= context["min_length"]:
            return  # Each invalid item has its own error.
        case _:
            yield _wrong_value(root, location, error)


def _unknown_key(root: type[Model], location: Location, value: object, document: object) -> Fault:
    key = str(location[-1])
    if is_confidential(key):
        return refused(location, "inside the structured key")
    model = model_at(root, location[:-1])
    known_keys = list(fields(model)) if model is not None else []
    near = nearest(key, known_keys)
    elsewhere = near_places(root, key, location[:-1]) if plain(near) != plain(key) else []
    fitting = [
        path for path in elsewhere if _takes(root, path, value) and _has_section(document, path)
    ]
    is_free = near not in _mapping_at(document, location[:-1])
    is_near = similarity(key, near) >= LIKE_ENOUGH and not elsewhere and is_free
    near_field = fields(model).get(near) if model else None
    takes = is_near and _takes_field(near_field, value)
    if takes and value is not None:
        cure = rename_to(near)
    elif is_umbrella(value, known_keys):
        cure = ONE_LEVEL_UP
    elif is_near and value is not None:
        cure = f'{REMOVE}; "{near}" takes {_form(near_field)}'
    elif fitting:
        cure = f'{move_to(*fitting)}; the nearest key here is "{near}"'
    elif elsewhere:
        form = _form(field_at(root, _steps_of(elsewhere[0])))
        cure = f"{REMOVE}; {' or '.join(elsewhere[:3])} takes {form}"
    else:
        cure = f'{REMOVE}; the nearest key here is "{near}"'
    return fault(location, f'an unknown key "{key}"', f"one of {', '.join(known_keys)}", cure)


def _mapping_at(document: object, location: Location) -> Mapping[str, object]:
    """Return the mapping at a location of a document; empty if there is none."""
    for step in location:
        if isinstance(document, Mapping):
            document = document.get(step)
        elif isinstance(document, Sequence) and isinstance(step, int) and step < len(document):
            document = document[step]
        else:
            return {}
    return document if isinstance(document, Mapping) else {}


def _steps_of(path: str) -> Location:
    """Return the location of a path such as `pools[].mig`, in the first item of each list."""
    steps = path.replace("[]", ".0").split(".")
    return tuple(int(step) if step == "0" else step for step in steps)


def _has_section(document: object, path: str) -> bool:
    """Return True if a document has the section of a path, without the path's key.

    A key that is moved into a new section alone would miss what the section needs besides.
    """
    *section, key = _steps_of(path)
    if document is None:  # The caller passed no document to compare with.
        return True
    values = _mapping_at(document, tuple(section))
    return not section or (bool(values) and key not in values)


def _takes(root: type[Model], path: str, value: object) -> bool:
    return _takes_field(field_at(root, _steps_of(path)), value)


def _takes_field(field: FieldInfo | None, value: object) -> bool:
    """Return True if a field accepts a value."""
    if field is None:
        return False
    whole: Any = field.annotation
    if field.metadata:
        whole = Annotated[(whole, *field.metadata)]
    adapter: TypeAdapter[Any] = TypeAdapter(whole)
    try:
        adapter.validate_python(value, by_alias=True, by_name=False)
    except ValidationError:
        return False
    except AttributeError:
        return (
            True  # The validator needs other fields of the model, whose values are not known here.
        )
    return True


def _form(field: FieldInfo | None) -> str:
    return (field.description if field else None) or "another form"


def _missing_key(root: type[Model], location: Location) -> Fault:
    field = field_at(root, location)
    # The cure stands in double quotes, so its value has single ones.
    value = str(field.examples[0]).replace('"', "'") if field is not None and field.examples else ""
    example = f": {value}" if value else ":"
    return fault(
        location,
        NOTHING,
        (field.description if field is not None else None) or "a value",
        _own_cure(field) or f'add "{location[-1]}{example}"',
    )


def _wrong_value(root: type[Model], location: Location, error: ErrorDetails) -> Fault:
    field = field_at(root, location)
    value = error["input"]
    wanted = (field.description if field is not None else None) or _in_mapping(error)
    if isinstance(location[-1], int) and wanted.startswith("a list of "):
        wanted = f"an item of {wanted}"
    if "[key]" in error["loc"]:
        return fault(location, f"the key {show(value)}", wanted, _other_key(error))
    mapping = None if field is not None else field_at(root, location[:-1])
    cure = _same_value(field, location, error, mapping) or _other_value(
        field, location, error, wanted, _first_value(mapping, str(location[-1]))
    )
    return fault(location, show(value), wanted, cure)


def _other_key(error: ErrorDetails) -> str:
    """Return the cure of a key that a mapping of names doesn't accept."""
    near = nearest(str(error["input"]), _choices(error)) if _choices(error) else ""
    is_near = similarity(str(error["input"]), near) >= LIKE_ENOUGH
    return rename_to(near) if near and is_near else REMOVE


def _same_value(
    field: FieldInfo | None, location: Location, error: ErrorDetails, mapping: FieldInfo | None
) -> str:
    """Return the cure that writes the value in another form; empty if no form is right.

    Args:
        mapping: Field of the mapping of names that has the value; None for a value of a model.
    """

    def takes(other: object) -> bool:
        if field is None and mapping is not None:
            return _takes_field(mapping, {str(location[-1]): other})
        return field is None or _takes_field(field, other)

    kind, value = error["type"], error["input"]
    if kind == "string_type" and isinstance(value, bool | int | float):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        whole = [text] if isinstance(location[-1], int) else text
        return f'put it in quotes: "{text}"' if takes(whole) else ""
    if kind in ("int_type", "bool_type") and isinstance(value, str) and _is_plain(value, kind):
        number = int(value) if kind == "int_type" else value == "true"
        return f"write {value} without quotes" if takes(number) else ""
    if kind in ("enum", "literal_error") and isinstance(value, str):
        near = nearest(value, _choices(error))
        return f'write "{near}"' if similarity(value, near) >= LIKE_ENOUGH else ""
    return ""


def _choices(error: ErrorDetails) -> list[str]:
    """Return the values of a field with a fixed set of texts; empty for other fields."""
    expected = str(error.get("ctx", {}).get("expected", ""))
    return [c.strip(" '") for c in expected.replace(" or ", ", ").split(",")] if expected else []


def _other_value(
    field: FieldInfo | None, location: Location, error: ErrorDetails, wanted: str, first: str
) -> str:
    """Return the cure that writes another value, or none.

    Args:
        first: Example of a value of the mapping of names that has the value; empty: none.
    """
    own = _own_cure(field)
    if own:
        return own
    left_out = f", or {REMOVE}" if field is not None and not field.is_required() else ""
    example = field.examples[0] if field is not None and field.examples else None
    if isinstance(location[-1], int):
        example = _first_item(example)
        return f"write {example}, for example" if example else REMOVE
    if example is not None or first:
        return f"write {first or example}, for example{left_out}"
    if error["type"] in ("too_short", "string_too_short"):
        return f"add one{left_out}"
    if simple := _SIMPLE.get(error["type"]):
        return f"write {simple[1]}, for example{left_out}"
    if words := _choices(error):
        return f'write "{words[0]}", for example{left_out}'
    return f"write {wanted}{left_out}" if field is not None else REMOVE


def _own_cure(field: FieldInfo | None) -> str:
    metadata = field.metadata if field is not None else ()
    return next((entry.text for entry in metadata if isinstance(entry, OwnCure)), "")


def _first_value(mapping: FieldInfo | None, key: str) -> str:
    """Return the first mapping in a field's example, if it is also valid for `key`."""
    import yaml

    example = mapping.examples[0] if mapping is not None and mapping.examples else None
    values = yaml.safe_load(str(example)) if example is not None else None
    if not isinstance(values, dict) or not values:
        return ""
    first = next(iter(values.values()))
    return _in_one_line(first) if _takes_field(mapping, {key: first}) else ""


def _in_one_line(value: object) -> str:
    import yaml

    text: str = yaml.safe_dump(value, default_flow_style=True, width=1000)
    return text.removesuffix("...\n").strip()


def _first_item(example: object) -> str:
    """Return the first item of an example that is a list in YAML; empty if there is none."""
    import yaml  # Importing PyYAML takes time, and only faults need it.

    items = yaml.safe_load(str(example)) if example is not None else None
    if not isinstance(items, list) or not items:
        return ""
    return _in_one_line(items[0])


def _in_mapping(error: ErrorDetails) -> str:
    """Return the description of a mapping of names, whose fields have none."""
    if words := _choices(error):
        return f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    if simple := _SIMPLE.get(error["type"]):
        return simple[0]
    return error["msg"].lower()


_SIMPLE = {
    "string_type": ("a text", '"1"'),
    "int_type": ("a whole number", "1"),
    "bool_type": ("true or false", "true"),
    "greater_than_equal": ("a number that is not below 0", "0"),
    "model_type": ("a mapping", "{}"),
    "model_attributes_type": ("a mapping", "{}"),
    "dict_type": ("a mapping", "{}"),
    "tuple_type": ("a list", "[]"),
    "list_type": ("a list", "[]"),
}
"""Words and an example for errors of values in mappings of names, by pydantic's error type."""


def _is_plain(value: str, kind: str) -> bool:
    return value.isdecimal() if kind == "int_type" else value in ("true", "false")
