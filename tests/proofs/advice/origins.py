"""Find the row of docs/reference/errors.md of a fault: the call in the code that made it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from gpu_rules import faults
from gpu_rules.faults import Fault
from tests.error_texts import ROOT, anchors, calls_of_module, errors

Words = tuple[str, str, str]
_MAKERS: tuple[CodeType, ...] = (
    faults.refuse.__code__,
    faults.fault.__code__,
    Fault.__init__.__code__,
)


@cache
def _rows(file: str) -> tuple[tuple[int, int, str], ...]:
    """Return first line, last line and anchor of each call of a module that makes an error text."""
    path = Path(file)
    if not path.is_relative_to(ROOT):
        return ()
    name = path.relative_to(ROOT).as_posix()
    named = _anchors()
    return tuple(
        (call.lineno, call.end_lineno or call.lineno, named[made])
        for call, made in calls_of_module(name, path.read_text(encoding="utf-8"))
        if made in named
    )


@cache
def _anchors() -> dict[Any, str]:
    texts = errors()
    return dict(zip(texts, anchors(texts), strict=True))


@dataclass
class Origins:
    """Faults that were made while a function ran, with the anchor of each one's row.

    Attributes:
        rows: Anchors by found, wanted and cure; an anchor is missing if no row has the text.
    """

    rows: dict[Words, str] = field(default_factory=dict)

    def watch(self, function: Callable[[], Any]) -> Any:
        """Call a function, and note which calls of the code made faults."""
        earlier = sys.getprofile()
        sys.setprofile(self._note)
        try:
            return function()
        finally:
            sys.setprofile(earlier)

    def row_of(self, fault: Fault) -> str:
        """Return the anchor of a fault's row; empty if none is known."""
        return self.rows.get((fault.found, fault.wanted, fault.cure), "")

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code not in _MAKERS:
            return
        given = frame.f_locals
        words = tuple(str(given.get(word, "")) for word in ("found", "wanted", "cure"))
        caller = frame.f_back
        for _step in range(6):
            if caller is None or words in self.rows:
                return
            for first, last, anchor in _rows(caller.f_code.co_filename):
                if first <= caller.f_lineno <= last:
                    self.rows[words] = anchor
                    return
            caller = caller.f_back
