"""Input that the checker could not read or did not check."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ..faults import InputError, worded

# Maximum number of characters of an invalid value that a message repeats.
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """The reason why a file or one of its documents could not be checked.

    Attributes:
        document: Number of the document in the file, counted from 1 without empty documents, or
            None for the whole file.
        line: Line in the file, counted from 1, or None.
        found: What was found instead of valid input.
        wanted: What is required.
    """

    file: str
    document: int | None
    line: int | None
    found: str
    wanted: str
    cure: str

    @classmethod
    def of(cls, error: InputError, file: str, document: int | None, line: int | None) -> Problem:
        """Return the problem for a parse error in a file.

        Args:
            error: The parse error.
            document: Number of the document in the file, or None for the whole file.
            line: Line in the file, or None.
        """
        return cls(file, document, line, error.found, error.wanted, error.cure)

    @property
    def message(self) -> str:
        """Return the message about the problem as one line, without the name of the file."""
        place = f"document {self.document}: " if self.document is not None else ""
        return place + worded(self.found, self.wanted, self.cure)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A field or file that may request GPUs but was not checked; the report's summary counts it.

    Attributes:
        file: Name of the file or folder.
        what: Kind of the thing that was not checked, such as `Helm chart`.
        path: Path of the field in the object, or empty.
        subject: Kind, namespace and name of the object, or empty.
        line: Line in the file, counted from 1, or None.
        reason: Why it was not checked; empty for a field that no rule reads.
    """

    file: str
    what: str
    path: str = ""
    subject: str = ""
    line: int | None = None
    reason: str = ""

    @property
    def message(self) -> str:
        """Return the message as one line: object and path, what was not checked, and why."""
        place = f"{self.subject}: {self.path}: " if self.path else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"{place}not checked: {self.what}{reason}"


def show(value: object) -> str:
    """Return text for a message: `a mapping`, `a list`, or the value as shortened JSON."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    written = json.dumps(value, ensure_ascii=True)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 1]}…"
