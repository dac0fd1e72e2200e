"""Where in a document's text a path of a manifest stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from .parse import LOADER

Location = tuple[str | int, ...]
_STEP: Final = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")


def location(path: str) -> Location:
    """`spec.containers[0].limits[nvidia.com/gpu]` as its keys and indices."""
    return tuple(int(index) if index else key or name for index, key, name in _STEP.findall(path))


class Lines:
    """The lines of a text's values, counted from 1, for one of the documents in it."""

    def __init__(self, text: str, index: int) -> None:
        self._lines: dict[Location, int] = {}
        try:
            for at, line in _places(text, index):
                self._lines.setdefault(at, line)
        except (yaml.YAMLError, UnicodeEncodeError):
            pass  # JSON that isn't YAML: lines up to there

    def line(self, path: str) -> int:
        """The line of the nearest place that the text has: a field left out is its parent's."""
        at = location(path)
        for end in range(len(at), -1, -1):
            if (known := self._lines.get(at[:end])) is not None:
                return known
        return 1


def _places(text: str, index: int) -> Iterator[tuple[Location, int]]:
    """The place of each value: that of a mapping at its key, that of an item where it begins."""
    open_at: list[Location] = []  # the collections around, outermost first
    steps: list[str | int | None] = []  # of each the next index, or the pending key or None
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
