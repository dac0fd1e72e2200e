"""What is wrong somewhere, in one form, and the error of a configuration that carries all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from .printable import printable

if TYPE_CHECKING:
    from pydantic_core import PydanticCustomError

Location = tuple[str | int, ...]

NOTHING = "nothing"
WITH_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s?#]*@")
"""An address with its user's name or password (RFC 3986, 3.2.1)."""
_SHOWN = 72  # characters of a found value that a message repeats


class Severity(StrEnum):
    """``error``: what is declared can't come true; ``warning``: reported, and stops nothing."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Fault:
    """What is wrong at one place, in a document, on a host or in a cluster.

    Attributes:
        place: where, as a user would write it (`pools[0].labels["a/b"]`, `host gpu-1`).
        found: what is there; `wanted`: what must be there; `cure`: what to do.
        severity: whether it stops a run.
        line: of the file, for faults in one.
        location: the keys that lead there, for faults in a document.
    """

    place: str
    found: str
    wanted: str
    cure: str
    severity: Severity = Severity.ERROR
    line: int | None = None
    location: Location = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line is not None else ""
        wording = worded(self.found, self.wanted, self.cure)
        return printable(f"{self.place}{line}: {wording}")


def worded(found: str, wanted: str, cure: str) -> str:
    """What is wrong, in the one form that all messages have; the place comes before it."""
    return f"found {found}; wanted: {wanted}; cure: {cure}"


class FaultError(Exception):
    """Something is wrong that a person can cure: all of its faults, one a line."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


@dataclass
class InputError(Exception):
    """A text that can't be read; who knows its name makes a fault of it.

    Attributes:
        found: what is there; `wanted`: what must be there; `cure`: what to do.
        line: counts from 1 within the text; None where it means nothing.
    """

    found: str
    wanted: str
    cure: str
    line: int | None = None


class ConfigError(FaultError):
    """Every fault of one configuration, in the order of the document.

    `str()` is a numbered list of them. `source`: the file's name, or the configuration key where
    there is no file.
    """

    def __init__(self, faults: Iterable[Fault], source: str = "gpu-cluster:cluster") -> None:
        super().__init__(*faults)
        self.source = source

    def __str__(self) -> str:
        count = len(self.faults)
        head = f"{self.source}: {count} problem{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"{n:>3}. {f}" for n, f in enumerate(self.faults, start=1))])

    def located(self, source: str, lines: dict[Location, int]) -> ConfigError:
        """The same faults with the file's name and the line of the nearest place known."""
        return ConfigError(
            (replace(f, line=_nearest_line(f.location, lines)) for f in self.faults), source
        )


def fault(location: Location, found: str, wanted: str, cure: str) -> Fault:
    """A fault in a document, whose place is written from its location."""
    return Fault(path_text(location), found, wanted, cure, location=location)


def refuse(found: str, wanted: str, cure: str) -> PydanticCustomError:
    """The error that a validator raises to refuse one value."""
    from pydantic_core import PydanticCustomError  # faults alone need no pydantic

    return PydanticCustomError(
        "refused",
        "found {found}, wanted {wanted}; {cure}",
        {"found": found, "wanted": wanted, "cure": cure},
    )


def path_text(location: Location) -> str:
    """`("pools", 0, "labels", "a/b")` as `pools[0].labels["a/b"]`."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text or "the document"


def show(value: object) -> str:
    """A value as a message may repeat it: as JSON, shortened, and never a private key."""
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}" if value else "an empty list"
    if value is None:
        return "null"
    if isinstance(value, str) and "PRIVATE KEY" in value:
        return "a private key (not repeated here)"
    if isinstance(value, str) and WITH_USER.search(value):
        return "an address with a user or password (not repeated here)"
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        text = str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _nearest_line(location: Location, lines: dict[Location, int]) -> int | None:
    for end in range(len(location), -1, -1):
        if (line := lines.get(location[:end])) is not None:
            return line
    return None
