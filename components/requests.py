"""Requests of the programs that Commands run: one frozen class each, written and read by pydantic.

A request is the standard input of a program (`components.programs`) and a part of the state. Values
that equal their class's defaults are left out, so that a new field changes no request that doesn't
use it.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def write(request: Any) -> str:
    """Return a request as JSON: equal requests are equal text."""
    adapter: TypeAdapter[Any] = TypeAdapter(type(request))
    return adapter.dump_json(request, exclude_defaults=True).decode()


def read(kind: type[T], text: str) -> T:
    """Return the request that JSON holds.

    Args:
        kind: class of the request.
        text: what `write` returned.

    Raises:
        ValueError: the text isn't a request of this class.
    """
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        # Without the input: it may hold a secret.
        places = (".".join(map(str, found["loc"])) or "it" for found in error.errors())
        raise ValueError(
            f"the request isn't a valid {kind.__name__}: see {', '.join(places)}"
        ) from None
