"""Find the line number of a manifest's field in the text of a YAML document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from .parse import LOADER

Location = tuple[str | int, ...]
_STEP: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")


def location(path: str) -> Location:
    """Split a path such as `spec.containers[0].limits[nvidia.com/gpu]` into keys and indices."""
    return tuple(int(index) if index else key or name for index, key, name in _STEP.findall(path))


class Lines:
    """The line numbers of all values in one document, counted from 1."""

    def __init__(self, text: str, index: int) -> None:
        """Find the lines of all values in a document.

        Args:
            text: Text with one or more YAML documents.
            index: Index of the document within the text, counted from 0.
        """
        self._lines: dict[Location, int] = {}
        try:
            for at, line in _places(text, index):
                self._lines.setdefault(at, line)
        except (yaml.YAMLError, UnicodeEncodeError):
            pass  # Not all JSON is valid YAML. The lines that were read before the error are kept.

    def line(self, path: str) -> int:
        """Return the line of the field at a path, or of the nearest parent of a missing field."""
        at = location(path)
        for end in range(len(at), -1, -1):
            if (known := self._lines.get(at[:end])) is not None:
                return known
        return 1


def _places(text: str, index: int) -> Iterator[tuple[Location, int]]:
    """Yield the location and line of each value in a document.

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
        if number != index or isinstance(event, yaml.DocumentStartEvent | yaml.DocumentEndEvent):
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
        yield at, line if isinstance(step, str) else event.start_mark.line + 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_at.append(at)
            steps.append(0 if isinstance(event, yaml.SequenceStartEvent) else None)
