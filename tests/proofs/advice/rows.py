"""Find the row of docs/reference/errors.md of a message, and note that its cure was followed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from gpu_rules.faults import worded
from tests.error_texts import ErrorText, anchors, errors

Record = Callable[[str, object], None]
"""The fixture `record_property`."""
_PIECES = re.compile(r"…| / |; wanted: |^found |^wanted: ")
_LEAST = 0.05
"""Smallest share of a row's fixed words that a message of the row has."""


@cache
def _rows() -> dict[str, list[tuple[str, ErrorText]]]:
    """Return the rows with their anchors, by the file that makes the text."""
    texts, found = errors(), dict[str, list[tuple[str, ErrorText]]]()
    for anchor, text in zip(anchors(texts), texts, strict=True):
        found.setdefault(text.file, []).append((anchor, text))
    return found


def _share(words: str, message: str) -> tuple[float, int]:
    """Return how much of the fixed words of a text stands in a message: share, and characters."""
    pieces = [" ".join(piece.split()) for piece in _PIECES.split(words) if piece.strip(" :;,")]
    whole = sum(map(len, pieces))
    standing = sum(len(piece) for piece in pieces if piece in message)
    return standing / whole if whole else 1.0, standing


def _fit(row: ErrorText, message: str) -> tuple[float, int]:
    """Return how well a message fits a row; the greater, the better."""
    text, cure = _share(row.text, message), _share(row.cure, message)
    return (text[0] + cure[0], text[1] + cure[1]) if text[0] >= _LEAST else (0.0, 0)


def row_of(message: str, source: str) -> str:
    """Return the anchor of the row whose words a message has.

    Args:
        source: End of the path of the file that makes the text.

    Raises:
        LookupError: No row of the file fits, or several fit equally well.
    """
    plain = " ".join(message.split())
    of_source = (rows for file, rows in _rows().items() if file.endswith(source))
    fits = [(_fit(row, plain), anchor) for rows in of_source for anchor, row in rows]
    best = max((fit for fit, _ in fits), default=(0.0, 0))
    found = [anchor for fit, anchor in fits if fit == best]
    if not best[0] or len(found) > 1:
        raise LookupError(f"{source} has no row, or several, for: {plain}: {found}")
    return found[0]


def note(record: Record, source: str, message: object, cure: str) -> None:
    """Note that a test followed the cure of a message, and that the fault is gone.

    Args:
        source: File that makes the text, relative to the project.
        message: The message, or the error with it.
        cure: Words of the cure that the test followed.
    """
    found = getattr(message, "found", None)
    text = (
        worded(found, str(getattr(message, "wanted", "")), str(getattr(message, "cure", "")))
        if isinstance(found, str)
        else str(message)
    )
    assert cure in " ".join(text.split()), text
    record("advice", ("cure", row_of(text, source), True))
