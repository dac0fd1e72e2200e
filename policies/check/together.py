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
    _sources: dict[tuple[str, str, int], Source] = field(init=False)
    _objects: list[tuple[Judged, Object]] = field(default_factory=list)

    def __post_init__(self, sources: Iterable[Source]) -> None:
        """Index the documents by chart or kustomization, file and number."""
        self._sources = {
            (source.rendered, source.file, source.part.number): source for source in sources
        }

    def add(self, judged: Judged) -> Judged:
        """Keep the objects of a checked document and return the result unchanged."""
        self._objects += ((judged, item) for item in judged.objects)
        return judged

    def judge(self) -> Iterator[Found]:
        """Yield the violations that only several manifests together show.

        Each chart and each built kustomization is a stack of its own, together with the manifests
        that stand alone.
        """
        rendered = dict.fromkeys(judged.rendered for judged, _ in self._objects if judged.rendered)
        seen: set[Found] = set()
        for name in rendered or ("",):
            for found in self._judge(name):
                if found not in seen:
                    seen.add(found)
                    yield found

    def _judge(self, rendered: str) -> Iterator[Found]:
        stack = [entry for entry in self._objects if entry[0].rendered in ("", rendered)]
        first = {item.subject: (judged, item) for judged, item in reversed(stack)}
        for violation in evaluate_stack([item.manifest for _, item in stack], self.context):
            judged, item = first[violation.subject]
            source = self._sources[judged.rendered, judged.file, judged.document]
            line = source.line(item.place + violation.path, judged.index)
            yield Found.at(violation, judged.file, judged.document, line, judged.rendered)
