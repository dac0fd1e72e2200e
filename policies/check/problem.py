"""Input that could not be read, and the error that says so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from ..faults import InputError, worded

_SHOWN: Final = 60  # characters


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a file or one of its documents could not be judged.

    `document` counts from 1 the documents that are not empty, `line` the file's lines; both are
    `None` where they mean nothing.
    """

    file: str
    document: int | None
    line: int | None
    found: str
    wanted: str
    cure: str

    @classmethod
    def of(cls, error: InputError, file: str, document: int | None, line: int | None) -> Problem:
        """An error as a problem of a place."""
        return cls(file, document, line, error.found, error.wanted, error.cure)

    @property
    def message(self) -> str:
        """One line: document, found, wanted, cure."""
        where = f"document {self.document}: " if self.document is not None else ""
        return where + worded(self.found, self.wanted, self.cure)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """Something that was left out on purpose, which the summary names. `what`: its kind."""

    file: str
    what: str


def show(value: object) -> str:
    """A value as a message repeats it: its kind where it is a collection, else shortened JSON."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    written = json.dumps(value, ensure_ascii=True)
    return written if len(written) <= _SHOWN else f"{written[: _SHOWN - 1]}…"
