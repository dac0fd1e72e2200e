"""Find the line number of a manifest's field in a text of YAML documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from .parse import LOADER

Location = tuple[str | int, ...]
_STEP: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]?|([^.\[\]]+)")

_OUTSIDE: Final = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentEndEvent)


def location(path: str) -> Location:
    """Split a path such as `spec.containers[0].limits[nvidia.com/gpu]` into keys and indices."""
    return tuple(int(index) if index else key or name for index, key, name in _STEP.findall(path))


class Lines:
    """The line numbers of all values in a text, counted from 1."""

    def __init__(self, text: str) -> None:
        """Find the lines of all values in a text with one or more YAML documents."""
        self._documents: dict[int, dict[Location, int]] = {}
        try:
            for index, at, line in _places(text):
                self._documents.setdefault(index, {}).setdefault(at, line)
        except (yaml.YAMLError, UnicodeEncodeError):
            pass  # Not all JSON is valid YAML. The lines that were read before the error are kept.

    def line(self, path: str, index: int) -> int:
        """Return the line of the field at a path, or of the nearest parent of a missing field.

        Args:
            path: Path of the field in its document.
            index: Index of the document within the text, counted from 0.
        """
        at, lines = location(path), self._documents.get(index, {})
        for end in range(len(at), -1, -1):
            if (known := lines.get(at[:end])) is not None:
                return known
        return 1


def _places(text: str) -> Iterator[tuple[int, Location, int]]:
    """Yield the index of the document, the location and the line of each value in a text.

    A value in a mapping has the line of its key; a list item has the line in which it begins.
    """
    # Locations of the mappings and lists that enclose the current value, outermost first.
    open_at: list[Location] = []
    # For each enclosing list, the index of its next item. For each enclosing mapping, the key whose
    # value comes next, or None if a key comes next.
    steps: list[str | int | None] = []
    line, number = 1, -1
    event: Any
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.DocumentStartEvent):
            number += 1
            continue
        if isinstance(event, _OUTSIDE):
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            open_at.pop()
            steps.pop()
            continue
        step = steps[-1] if steps else None
        if steps and step is None:
            line = event.start_mark.line + 1
            steps[-1] = event.value if isinstance(event, yaml.ScalarEvent) else ""
            continue
        at = (*open_at[-1], step) if open_at and step is not None else ()
        if isinstance(step, int):
            steps[-1] = step + 1
        elif steps:
            steps[-1] = None
        yield number, at, line if isinstance(step, str) else event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_at.append(at)
            steps.append(0 if isinstance(event, yaml.SequenceStartEvent) else None)
