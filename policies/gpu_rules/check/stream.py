"""Decode the bytes of a file, and split the text into single YAML or JSON documents.

Each document is parsed separately, so a syntax error in one document does not prevent the checks of
the other documents in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..faults import InputError

# A line that begins with --- always starts a document (YAML 1.2.2 c-forbidden). kubectl splits at
# the same lines (k8s.io/apimachinery v0.34.4 pkg/util/yaml/decoder.go splitYAMLDocument).
_START: Final = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_CONTENT: Final = re.compile(
    r"^(?!---[ \t\r]*(?:#|$)|\.\.\.[ \t\r]*(?:#|$))[ \t]*[^#\s]", re.MULTILINE
)
# The end of a JSON object, followed by the start of another one.
_NEXT: Final = re.compile(r"\}\s*\{")
_SPACE: Final = re.compile(r"\s*")
_JSON: Final = json.JSONDecoder()
_BYTE_ORDER_MARK: Final = re.compile("^\ufeff", re.MULTILINE)
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class StreamPart:
    """The text of one document in a file.

    Attributes:
        number: Number of the document, counted from 1.
        line: Line in the file at which the text begins, counted from 1.
        text: Text of the document.
    """

    number: int
    line: int
    text: str


def decode(raw: bytes) -> str:
    """Decode the content of a file, without byte order marks.

    Raises:
        InputError: The bytes are not UTF-8; the error names the line number.
    """
    try:
        # In concatenated files, a byte order mark may begin any line. go.yaml.in/yaml/v2, which
        # kubectl uses, accepts that (scannerc.go).
        text = raw.decode()
        return _BYTE_ORDER_MARK.sub("", text) if "\ufeff" in text else text
    except UnicodeDecodeError as error:
        wide = raw.startswith(_UTF16)
        raise InputError(
            "UTF-16" if wide else f"the byte 0x{raw[error.start]:02x}, which is not UTF-8 there",
            "UTF-8",
            "Save the file as UTF-8.",
            raw.count(b"\n", 0, error.start) + 1,
        ) from None


def split(text: str) -> Iterator[StreamPart]:
    """Yield the documents of a text, without empty documents and those with only comments."""
    number, line, begin = 0, 1, 0
    for end in (*(match.start() for match in _START.finditer(text)), len(text)):
        stream_part = text[begin:end]
        if end < len(text) and _only_directives(stream_part):
            continue  # YAML directives belong to the next document.
        for offset, text_ in _objects(stream_part):
            if _CONTENT.search(text_):
                number += 1
                yield StreamPart(number, line + offset, text_)
        line += text.count("\n", begin, end)
        begin = end


def _objects(stream_part: str) -> Iterator[tuple[int, str]]:
    """Split a sequence of JSON objects without separators, such as `{…}{…}`, into single objects.

    Each object is yielded with the number of lines before it. The text after the last valid object
    is yielded as one more document, and so is a whole text that is not such a sequence. kubectl
    also accepts such sequences (k8s.io/apimachinery v0.34.4 pkg/util/yaml/decoder.go
    YAMLOrJSONDecoder).
    """
    line = end = 0
    start = _content(stream_part, 0)
    while (
        start < len(stream_part) and stream_part[start] == "{" and _NEXT.search(stream_part, start)
    ):
        try:
            _, after = _JSON.raw_decode(stream_part, start)
        except (ValueError, RecursionError):
            break
        line += stream_part.count("\n", end, start)
        yield line, stream_part[start:after]
        line += stream_part.count("\n", start, after)
        end, start = after, _content(stream_part, after)
    if start < len(stream_part):
        yield line, stream_part[end:]


def _content(stream_part: str, start: int) -> int:
    """Return the position of the first character after a position that is no white space."""
    match = _SPACE.match(stream_part, start)
    return match.end() if match else start


def _only_directives(stream_part: str) -> bool:
    if not stream_part.startswith("%") and "\n%" not in stream_part:
        return False
    return all(not row.strip() or row[0] in "%#" for row in stream_part.splitlines())
