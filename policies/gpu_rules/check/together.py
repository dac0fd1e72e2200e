"""Check all manifests of a run together, with the rules that compare several objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field

from ..faults import InputError
from ..rules import Context, Subject
from ..rules.devices import GROUPS, with_devices
from ..rules.registry import evaluate_together, items, objects_of
from .document import Source
from .parse import documents
from .result import Found, Judged, Object


def with_claims(context: Context, sources: Iterable[Source]) -> Context:
    """Return cluster facts, completed by the DeviceClasses and device claims (DRA) in manifests.

    Args:
        sources: All documents that the checker has read.
    """
    return with_devices(
        context,
        [
            manifest
            for source in sources
            if any(group in source.part.text for group in GROUPS)
            for value in _documents(source)
            if isinstance(value, dict)
            for _, manifest in items(value)
        ],
    )


def _documents(source: Source) -> list[object]:
    try:
        return documents(source.part.text)
    except InputError:
        # The parse error is reported when the document itself is checked.
        return []


@dataclass
class CheckedStack:
    """The objects of all checked documents, for the rules that compare several objects.

    Attributes:
        sources: All documents; their texts are kept to find the line numbers of violations.
    """

    context: Context
    sources: InitVar[Iterable[Source]]
    _sources: dict[tuple[str, str, int], Source] = field(init=False)
    _objects: list[tuple[Judged, Object, list[list[Subject]]]] = field(default_factory=list)
    """Objects with their subjects: an object outside of charts is part of many stacks."""

    def __post_init__(self, sources: Iterable[Source]) -> None:
        """Index the documents by the name of their chart or kustomization, file and number."""
        self._sources = {
            (source.rendered, source.file, source.part.number): source for source in sources
        }

    def add(self, judged: Judged) -> Judged:
        """Store the objects in the result for a document, and return the result unchanged."""
        for item in judged.objects:
            subjects = [subjects for _, subjects in objects_of(item.manifest, self.context)]
            self._objects.append((judged, item, subjects))
        return judged

    def judge(self) -> Iterator[Found]:
        """Yield the violations of rules that compare several objects.

        The objects of each chart and each kustomization are checked as a separate stack, to which
        all manifests outside of charts and kustomizations are added.
        """
        rendered = dict.fromkeys(
            judged.rendered for judged, _, _ in self._objects if judged.rendered
        )
        yielded: set[Found] = set()
        for name in rendered or ("",):
            for violation in self._judge(name):
                if violation not in yielded:
                    yielded.add(violation)
                    yield violation

    def _judge(self, rendered: str) -> Iterator[Found]:
        stack = [entry for entry in self._objects if entry[0].rendered in ("", rendered)]
        first = {item.subject: (judged, item) for judged, item, _ in reversed(stack)}
        objects = [subjects for _, _, inner in stack for subjects in inner]
        for violation in evaluate_together(objects, self.context):
            judged, item = first[violation.subject]
            source = self._sources[judged.rendered, judged.file, judged.document]
            line = source.line(item.place + violation.path, judged.index)
            yield Found.at(violation, judged.file, judged.document, line, judged.rendered)
