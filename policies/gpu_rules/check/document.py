"""Check the text of one YAML or JSON document against the GPU rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from os.path import basename
from typing import Final

from ..faults import InputError
from ..rules import Context, Subject, Violation
from ..rules.helm import of_values
from ..rules.placeholders import with_unknowns
from ..rules.registry import evaluate_objects, objects_of
from ..rules.unknown import UNKNOWN, at, mapping, sequence, text
from ..rules.unread import unread
from .lines import Lines
from .parse import documents
from .problem import Problem, Unjudged, show
from .result import Found, Judged, Object
from .shape import mistakes
from .stream import StreamPart
from .template import (
    PATCH,
    TEMPLATE,
    is_json_patch,
    is_manifest,
    is_object,
    is_template,
    line_with_gpus,
)

CHART = "Chart.yaml"
"""Name of the file that describes a Helm chart.

The file has an apiVersion but no kind, so it is not a manifest.
"""

_SET_BY_SERVER: Final = ("uid", "resourceVersion", "creationTimestamp")
"""Metadata that an API server gives to each object that it stores."""


@dataclass(frozen=True)
class Source:
    """The text of a document and the name of its file.

    Attributes:
        file: Name of the document's file. For a rendered document, the file that was rendered.
        part: The text, and its place in the file.
        given: Whether the user named the file itself and not only its folder. Such a file must
            contain manifests.
        rendered: Name of the chart or kustomization that rendered the text, or empty.
        origin: For a rendered document, the unrendered document in the file, if it is known.
    """

    file: str
    part: StreamPart
    given: bool = False
    rendered: str = ""
    origin: StreamPart | None = None

    def line(self, path: str, index: int) -> int:
        """Return the line of a field in the file, or of the nearest parent of a missing field."""
        part = self.origin if self.rendered else self.part
        if part is None:
            return 1
        return part.line + self._lines.line(path, 0 if self.rendered else index) - 1

    @cached_property
    def _lines(self) -> Lines:
        part = self.origin if self.rendered else self.part
        return Lines(part.text if part else "")


def is_server_list(sources: Sequence[Source]) -> bool:
    """Return whether documents are one list of objects that an API server has stored.

    `kubectl get -o json` and `-o yaml` print such a list.
    """
    if len(sources) != 1:
        return False
    try:
        (value,) = map(mapping, documents(sources[0].part.text))
    except (InputError, ValueError):
        return False
    stored = [
        all(at(item, "metadata", key) for key in _SET_BY_SERVER)
        for item in sequence(value.get("items"))
    ]
    return text(value.get("kind")).endswith("List") and bool(stored) and all(stored)


def judge(source: Source, context: Context, *, keep: bool = False) -> list[Judged]:
    """Check the text of a document against the rules, and return the results.

    There is more than one result if the YAML marker `...` splits the text into several documents.

    Args:
        source: Text of the document.
        keep: Whether the results contain the objects, for rules that compare several objects.
    """
    written = source.part.text
    try:
        values = documents(written)
    except InputError as error:
        if not source.given and (is_template(written) or not is_manifest(written)):
            return [_left_out(source, TEMPLATE if is_template(written) else "")]
        return [_unreadable(source, error, error.line or 1)]
    if "$" in written or is_template(written):
        values = list(map(with_unknowns, values))
    return [
        _Document(source, index, value).judge(context, keep) for index, value in enumerate(values)
    ]


@dataclass(frozen=True)
class _Document:
    source: Source
    index: int
    value: object

    def _line(self, path: str) -> int:
        return self.source.line(path, self.index)

    def judge(self, context: Context, keep: bool) -> Judged:
        if not isinstance(self.value, dict):
            if is_json_patch(self.value):
                return _left_out(self.source, PATCH)
            if not self.source.given and not _holds_manifests(self.value):
                return _left_out(self.source, "")
            error = InputError(
                show(self.value), "a Kubernetes object", "Name only files that contain manifests."
            )
            return _unreadable(
                self.source, error, Lines(self.source.part.text).line("", self.index)
            )
        file, number = self.source.file, self.source.part.number
        if values := of_values(self.value):
            return replace(self, value=dict(values)).judge(context, keep)
        described = self.value.get("version") if basename(file) == CHART else None
        if "kind" not in self.value and ("apiVersion" not in self.value or described):
            return Judged(file, number, foreign=True)
        if not self.source.given and not is_object(self.value):
            is_unknown = UNKNOWN in (self.value.get("apiVersion"), self.value.get("kind"))
            return _left_out(self.source, TEMPLATE if is_unknown else "")
        objects = objects_of(self.value, context)
        problems = [
            Problem.of(error, file, number, self._line(place + path))
            for place, (subject, *_) in objects
            for path, error in mistakes(subject.manifest)
        ]
        violations = [self._found(violation) for violation in evaluate_objects(objects, context)]
        return Judged(
            file=file,
            document=number,
            subjects=tuple(subject.label for _, (subject, *_) in objects),
            found=tuple(violations),
            problems=tuple(problems),
            unjudged=tuple(self._unjudged(objects, context)),
            objects=tuple(starmap(_kept, objects)) if keep else (),
            index=self.index,
            rendered=self.source.rendered,
        )

    def _found(self, violation: Violation) -> Found:
        source, line = self.source, self._line(violation.path)
        return Found.at(violation, source.file, source.part.number, line, source.rendered)

    def _unjudged(
        self, objects: Iterable[tuple[str, list[Subject]]], context: Context
    ) -> Iterator[Unjudged]:
        for place, subjects in objects:
            subject = subjects[0]
            kind = f"{subject.kind} ({subject.group_version})"
            for left in unread(subjects, context):
                path = place + left.path
                line = self._line(path)
                yield Unjudged(
                    self.source.file, kind, path, subject.label, line, reason=left.reason
                )


def _kept(place: str, subjects: list[Subject]) -> Object:
    return Object(subjects[0].label, place, subjects[0].manifest)


def _holds_manifests(value: object) -> bool:
    return any(map(is_object, sequence(value)))


def _left_out(source: Source, what: str) -> Judged:
    """Return the result for a text that is not a manifest, such as a template or a patch.

    A template or patch that names GPUs is reported as not checked.
    """
    number, line = source.part.number, line_with_gpus(source.part.text)
    if not what or line is None:
        return Judged(source.file, number, foreign=not what, templates=bool(what))
    reason = "it names GPUs; render it and check the result"
    named = Unjudged(source.file, what, line=source.part.line + line - 1, reason=reason)
    return Judged(source.file, number, unjudged=(named,))


def _unreadable(source: Source, error: InputError, line: int) -> Judged:
    part = source.part
    line = 1 if source.rendered else part.line + line - 1
    problem = Problem.of(error, source.file, part.number, line)
    return Judged(source.file, part.number, problems=(problem,))
