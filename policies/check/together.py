"""Check all manifests of a run together, as one stack."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..rules import Context, evaluate_stack
from .document import Source
from .lines import Lines
from .result import Found, Judged, Object


@dataclass
class CheckedStack:
    """All documents that a run has read, for the rules that need the whole stack."""

    context: Context
    _texts: dict[tuple[str, int], Source] = field(default_factory=dict)
    _objects: dict[str, tuple[Judged, Object]] = field(default_factory=dict)
    _all: list[Object] = field(default_factory=list)

    def take(self, source: Source) -> Source:
        """Keep the text of a document for later line numbers, and return the document."""
        self._texts[source.file, source.part.number] = source
        return source

    def add(self, judged: Judged) -> Judged:
        """Keep the objects of a checked document and return the result unchanged."""
        for item in judged.objects:
            self._all.append(item)
            self._objects.setdefault(item.subject, (judged, item))
        return judged

    def judge(self) -> Iterator[Found]:
        """Yield the violations that only several manifests together show."""
        for violation in evaluate_stack([item.manifest for item in self._all], self.context):
            judged, item = self._objects[violation.subject]
            part = self._texts[judged.file, judged.document].part
            line = Lines(part.text, judged.index).line(item.place + violation.path)
            yield Found.at(violation, judged.file, judged.document, part.line + line - 1)
