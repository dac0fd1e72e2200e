"""Check all manifests of a run together, with the rules that compare several objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field, replace

from ..faults import InputError
from ..rules import Context, Subject, Violation
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
        settings: Name of the file with the cluster's pools, in which a rule may find violations.
    """

    context: Context
    sources: InitVar[Iterable[Source]]
    settings: str = "settings of the rules"
    _sources: dict[tuple[str, str, int], Source] = field(init=False)
    _subjects: list[list[Subject]] = field(default_factory=list)
    _objects: dict[tuple[str, str], tuple[Judged, Object]] = field(default_factory=dict)
    """First object of each label, by its chart or kustomization and label."""

    def __post_init__(self, sources: Iterable[Source]) -> None:
        """Index the documents by the name of their chart or kustomization, file and number."""
        self._sources = {
            (source.rendered, source.file, source.part.number): source for source in sources
        }

    def add(self, judged: Judged) -> Judged:
        """Store the objects in the result for a document, and return the result unchanged."""
        for item in judged.objects:
            self._objects.setdefault((judged.rendered, item.subject), (judged, item))
            for _, subjects in objects_of(item.manifest, self.context):
                self._subjects.append(
                    [replace(subject, stack=judged.rendered) for subject in subjects]
                )
        return judged

    def judge(self) -> Iterator[Found]:
        """Yield the violations of rules that compare several objects.

        The objects of each chart and each kustomization are a separate stack, to which all objects
        outside of charts and kustomizations are added.
        """
        violations = evaluate_together(self._subjects, self.context)
        yield from dict.fromkeys(map(self._found, violations))

    def _found(self, violation: Violation) -> Found:
        place = self._objects.get((violation.stack, violation.subject))
        if place is None:
            # A rule about pools finds faults of the settings.
            return Found.at(violation, self.settings, 1, 1)
        judged, item = place
        source = self._sources[judged.rendered, judged.file, judged.document]
        line = source.line(item.place + violation.path, judged.index)
        return Found.at(violation, judged.file, judged.document, line, judged.rendered)
