"""Requests of the programs that Commands run: one frozen class each, written and read by pydantic.

A request is the standard input of a program (`components.programs`) and a part of the state. Values
that equal their class's defaults are left out, so that a new field changes no request that doesn't
use it. What a program prints for its own next run has a class, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from policies.faults import Fault, FaultError, path_text

T = TypeVar("T")

PREVIOUS = "PULUMI_COMMAND_STDOUT"
"""Variable in which pulumi-command gives a Command what its last run printed."""


@dataclass(frozen=True, kw_only=True)
class Enclosed:
    """A request with the kubeconfig that its program uses in place of the machine's.

    Both on standard input: of the environment every child gets a copy, and a command line is shown.

    Attributes:
        kubeconfig: its contents.
        request: the request, as `write` returned it.
    """

    kubeconfig: str = field(repr=False)
    request: str = field(repr=False)


def opened(text: str) -> tuple[str | None, str]:
    """Return the kubeconfig that came with a request, None where none did, and the request."""
    if not text.startswith('{"kubeconfig":'):
        return None, text
    enclosed = read(Enclosed, text)
    return enclosed.kubeconfig, enclosed.request


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
        FaultError: the text isn't a request of this class.
    """
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        raise FaultError(*_faults(kind, error)) from None


def _faults(kind: type, error: ValidationError) -> Iterator[Fault]:
    # Without the input: it may hold a secret.
    for found in error.errors(include_input=False, include_context=False, include_url=False):
        yield Fault(
            f"{kind.__name__}: {path_text(found['loc'])}",
            f"a value that can't be used ({found['type']})",
            "what this release writes",
            "run `up` with the release that the stack was brought up with, then update",
        )


def previous(kind: type[T]) -> T:
    """Return what the Command's last run printed; the class's defaults if nothing has run yet.

    Args:
        kind: class of what the program prints.

    Raises:
        FaultError: the last run printed something else.
    """
    return read(kind, os.environ.get(PREVIOUS) or "{}")
