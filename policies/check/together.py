"""Check all manifests of a run together, as one stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field

from ..faults import InputError
from ..rules import Context, evaluate_stack
from ..rules.claims import GROUP
from ..rules.devices import with_devices
from ..rules.registry import items
from .document import Source
from .lines import Lines
from .parse import documents
from .result import Found, Judged, Object


def with_claims(context: Context, sources: Iterable[Source]) -> Context:
    """Return cluster facts with what the documents of a run say about claims for devices (DRA)."""
    return with_devices(
        context,
        [
            manifest
            for source in sources
            if GROUP in source.part.text
            for value in _documents(source)
            if isinstance(value, dict)
            for _, manifest in items(value)
        ],
    )


def _documents(source: Source) -> list[object]:
    try:
        return documents(source.part.text)
    except InputError:
        # The check of the document reports the error.
        return []


@dataclass
class CheckedStack:
    """All documents that a run has read, for the rules that need the whole stack.

    Attributes:
        context: Facts about the cluster.
        sources: All documents; their texts are kept for line numbers.
    """

    context: Context
    sources: InitVar[Iterable[Source]]
    _texts: dict[tuple[str, int], Source] = field(init=False)
    _objects: dict[str, tuple[Judged, Object]] = field(default_factory=dict)
    _all: list[Object] = field(default_factory=list)

    def __post_init__(self, sources: Iterable[Source]) -> None:
        """Index the documents by file and number."""
        self._texts = {(source.file, source.part.number): source for source in sources}

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
