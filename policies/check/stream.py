"""A file's bytes as text, and the text as single documents.

Each document is read on its own, so that a broken one leaves the others to be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policies.check.problem import InputError

# A line that begins with --- starts a document wherever it stands: YAML 1.2.2 c-forbidden. kubectl
# splits at the same place: k8s.io/apimachinery v0.34.4 pkg/util/yaml/decoder.go splitYAMLDocument.
_START: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_CONTENT: Final = re.compile(
    r"^(?!---[ \t\r]*(?:#|$)|\.\.\.[ \t\r]*(?:#|$))[ \t]*[^#\s]", re.MULTILINE
)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Part:
    """The text of a document: `number` counts from 1, `line` is the file's line of its first."""

    number: int
    line: int
    text: str


def decode(raw: bytes) -> str:
    """The text of a file. Raises `InputError` with the line where it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = raw.startswith(_UTF16)
        raise InputError(
            "UTF-16" if wide else f"the byte 0x{raw[error.start]:02x}, which is not UTF-8 there",
            "UTF-8",
            "Save the file as UTF-8.",
            raw.count(b"\n", 0, error.start) + 1,
        ) from None


def split(text: str) -> Iterator[Part]:
    """The documents that hold more than comments."""
    number, line, begin = 0, 1, 0
    for end in (*(match.start() for match in _START.finditer(text)), len(text)):
        part = text[begin:end]
        if end < len(text) and _only_directives(part):
            continue  # they belong to the document that follows
        if _CONTENT.search(part):
            number += 1
            yield Part(number, line, part)
        line += text.count("\n", begin, end)
        begin = end


def _only_directives(part: str) -> bool:
    if not part.startswith("%") and "\n%" not in part:
        return False
    return all(not row.strip() or row[0] in "%#" for row in part.splitlines())
