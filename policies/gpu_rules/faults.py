"""Faults that a user can fix in configuration, hosts or clusters, and their exceptions."""

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
WITH_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^/\s?#]*@")
"""A URL that contains a user name or password (RFC 3986, section 3.2.1)."""
# Maximum number of characters of an invalid value that a message repeats.
_SHOWN = 72


class FaultSeverity(StrEnum):
    """How serious a fault is: an error stops the run, a warning is only reported."""

    ERROR = "error"
    WARNING = "warning"


class Severity(StrEnum):
    """Severity of a rule: `mandatory` stops a preview, `advisory` only prints, `off` disables."""

    MANDATORY = "mandatory"
    ADVISORY = "advisory"
    OFF = "off"


@dataclass(frozen=True)
class Fault:
    """One fault at one place in a document, on a host or in a cluster.

    Attributes:
        place: Where the fault is, such as `pools[0].labels["a/b"]` or `host gpu-1`.
        found: The value or state that was found.
        wanted: The value or state that is required.
        severity: Whether the fault stops the run (default: it does).
        line: Line in the file, if the fault is in a file and the line is known.
        location: Keys and indices that lead to the value, if the fault is in a document.
    """

    place: str
    found: str
    wanted: str
    cure: str
    severity: FaultSeverity = FaultSeverity.ERROR
    line: int | None = None
    location: Location = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        """Return the fault as one printable line: place, found value, wanted value, cure."""
        line = f" (line {self.line})" if self.line is not None else ""
        wording = worded(self.found, self.wanted, self.cure)
        return printable(f"{self.place}{line}: {wording}")


def worded(found: str, wanted: str, cure: str) -> str:
    """Return one line with the found state, the wanted state and the cure, as in all messages."""
    return f"found {found}; wanted: {wanted}; cure: {cure}"


class Outside(str):
    """A cure that is an act outside of this program: on a host, at a forge, by a vendor.

    No test follows such a cure. All others are edits of files, commands, or words of a message.
    """

    __slots__ = ()


class PartError(ValueError):
    """An error whose text is a part of another error's text, which says what to do."""


class FaultError(Exception):
    """An error that reports one or more faults; the user can fix each of them."""

    def __init__(self, *faults: Fault) -> None:
        """Keep the faults in the attribute `faults`."""
        super().__init__(*faults)
        self.faults = faults

    def __str__(self) -> str:
        """Return all faults, one per line."""
        return "\n".join(map(str, self.faults))


@dataclass
class InputError(Exception):
    """A syntax error in a text. The caller knows the file name and converts the error to a `Fault`.

    Attributes:
        found: What was found in the text.
        wanted: What is required.
        line: Line within the text, counted from 1; None if no line applies.
    """

    found: str
    wanted: str
    cure: str
    line: int | None = None


class ConfigError(FaultError):
    """All faults of one configuration, in the order in which the document has them.

    `str()` returns them as a numbered list.

    Attributes:
        source: Name of the file, or the Pulumi configuration key if there is no file.
    """

    def __init__(self, faults: Iterable[Fault], source: str = "gpu-cluster:cluster") -> None:
        """Keep the faults and the name of the configuration."""
        super().__init__(*faults)
        self.source = source

    def __str__(self) -> str:
        """Return the number of faults and a numbered list of them."""
        count = len(self.faults)
        head = f"{self.source}: {count} problem{'' if count == 1 else 's'}"
        return "\n".join([head, *(f"{n:>3}. {f}" for n, f in enumerate(self.faults, start=1))])

    def located(self, source: str, lines: dict[Location, int]) -> ConfigError:
        """Return a copy of the error with a file name and the line number of each fault.

        If the line of an invalid value is not known, its fault gets the line of the nearest
        enclosing value.

        Args:
            source: Name of the file.
            lines: Line numbers of the values in the file, by location.
        """
        return ConfigError(
            (replace(f, line=_nearest_line(f.location, lines)) for f in self.faults), source
        )


def fault(location: Location, found: str, wanted: str, cure: str) -> Fault:
    """Return a fault of a value in a document, from the keys and indices that lead to the value."""
    return Fault(path_text(location), found, wanted, cure, location=location)


def refuse(found: str, wanted: str, cure: str) -> PydanticCustomError:
    """Return the error that a pydantic validator raises to reject a value."""
    # pydantic is imported only in this function: programs without pydantic import this module, too.
    from pydantic_core import PydanticCustomError

    return PydanticCustomError(
        "refused",
        "found {found}, wanted {wanted}; {cure}",
        {"found": found, "wanted": wanted, "cure": cure},
    )


def path_text(location: Location) -> str:
    """Return a location as a path, such as `pools[0].labels["a/b"]`.

    Args:
        location: Keys and indices, such as `("pools", 0, "labels", "a/b")`.
    """
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
    """Return a value as JSON for a message, shortened, and with secrets left out.

    Private keys and URLs with a user name or password are replaced by a description.
    """
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
