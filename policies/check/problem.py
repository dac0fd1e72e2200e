"""Input that could not be read or was left out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ..faults import InputError, worded

# Maximum number of characters of a value that a message repeats.
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a file or one of its documents could not be checked.

    Attributes:
        file: Name of the file.
        document: Number of the document among those that are not empty, counted from 1, or None.
        line: Line in the file, counted from 1, or None.
        found: What was found.
        wanted: What is required.
        cure: What the user should do.
    """

    file: str
    document: int | None
    line: int | None
    found: str
    wanted: str
    cure: str

    @classmethod
    def of(cls, error: InputError, file: str, document: int | None, line: int | None) -> Problem:
        """Return a parse error as a problem at a place in a file."""
        return cls(file, document, line, error.found, error.wanted, error.cure)

    @property
    def message(self) -> str:
        """Return one line: number of the document, what was found, what is wanted, the cure."""
        where = f"document {self.document}: " if self.document is not None else ""
        return where + worded(self.found, self.wanted, self.cure)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A field or file that no rule reads or that is skipped on purpose; the summary counts it.

    Attributes:
        file: Name of the file or folder.
        what: Kind of the thing that was left out, such as a Helm chart.
        path: Path of the field in the object, or empty.
        subject: Kind, namespace and name of the object, or empty.
        line: Line in the file, counted from 1, or None.
        reason: Why it was left out, or empty if no rule reads the field.
    """

    file: str
    what: str
    path: str = ""
    subject: str = ""
    line: int | None = None
    reason: str = ""

    @property
    def message(self) -> str:
        """Return one line with object, path and reason."""
        where = f"{self.subject}: {self.path}: " if self.path else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{where}not judged: {self.what}{reason}"


def show(value: object) -> str:
    """Return a value for a message: the type of a collection, or shortened JSON."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    written = json.dumps(value, ensure_ascii=True)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 1]}…"
