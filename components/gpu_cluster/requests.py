"""Requests of the programs that Commands run: one frozen class each, (de)serialized by pydantic.

A request is the standard input of a program (`gpu_cluster.programs`) and part of the state. Values
equal to the default of their field are omitted, so that a new field does not change the requests
that don't use it. The output of a program's last run, which its next run reads, has a class, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from gpu_rules.faults import Fault, FaultError, path_text

T = TypeVar("T")

PREVIOUS = "PULUMI_COMMAND_STDOUT"
"""Environment variable in which pulumi-command passes a Command the output of its last run."""


@dataclass(frozen=True, kw_only=True)
class Enclosed:
    """A request together with the kubeconfig that its program uses.

    The program uses this kubeconfig instead of the machine's own. Request and kubeconfig are passed
    on standard input, because every child process inherits environment variables, and command lines
    are visible to other users.

    Attributes:
        kubeconfig: Contents of the kubeconfig.
        request: The request, as `write` returned it.
    """

    kubeconfig: str = field(repr=False)
    request: str = field(repr=False)


def opened(text: str) -> tuple[str | None, str]:
    """Return the kubeconfig (None if there is none) and the request that a text contains."""
    if not text.startswith('{"kubeconfig":'):
        return None, text
    enclosed = read(Enclosed, text)
    return enclosed.kubeconfig, enclosed.request


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return pydantic's parser of a class, made once.

    To make one takes more than a millisecond, and thousands of nodes have records to parse.
    """
    return _made(kind)


@cache
def _made(kind: type | UnionType) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(cast(Any, kind))
    return adapter


def write(request: Any) -> str:
    """Return a request as JSON; equal requests give equal text."""
    return _adapter(type(request)).dump_json(request, exclude_defaults=True).decode()


def read(kind: type[T] | UnionType, text: str) -> T:
    """Return the request that a JSON text contains.

    Args:
        kind: Class of the request, or classes of which the text fits one.
        text: JSON that `write` returned.

    Raises:
        FaultError: The text is not a request of this class.
    """
    try:
        made: T = _adapter(kind).validate_json(text)
    except ValidationError as error:
        raise FaultError(*_faults(kind, error)) from None
    return made


def kept(kind: type[T], text: str | None, bound: int) -> T | None:
    """Parse untrusted JSON, such as an annotation, as a class; return None if it is invalid.

    Args:
        kind: The class; a text with a key that is not a field of the class is invalid.
        text: JSON text; None if there is no text.
        bound: Maximum number of characters that are parsed.
    """
    if text is None or len(text) > bound:
        return None
    try:
        made: T = _adapter(kind).validate_json(text, strict=True, extra="forbid")
    except ValidationError:
        return None
    return made


def _faults(kind: type | UnionType, error: ValidationError) -> Iterator[Fault]:
    # The input is left out of the errors, because it may contain a secret.
    for found in error.errors(include_input=False, include_context=False, include_url=False):
        yield Fault(
            f"{getattr(kind, '__name__', kind)}: {path_text(found['loc'])}",
            f"an input of another release of this program ({found['type']})",
            "an input of the installed release",
            "run `up` with the release of this program that deployed the stack, then update",
        )


def previous(kind: type[T]) -> T:
    """Return the output of the Command's last run, or the class's defaults if nothing has run yet.

    Args:
        kind: Class of the program's output.

    Raises:
        FaultError: The output of the last run does not fit the class.
    """
    return read(kind, os.environ.get(PREVIOUS) or "{}")
