"""Check the text of one YAML or JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from os.path import basename

from ..faults import InputError
from ..rules import Context, Subject, evaluate
from ..rules.custom import unread
from ..rules.registry import items
from ..rules.unknown import text
from .lines import Lines
from .parse import documents
from .problem import Problem, Unjudged, show
from .result import Found, Judged, Object
from .shape import mistakes
from .stream import StreamPart

CHART = "Chart.yaml"
"""The file that describes a Helm chart. It has an apiVersion but no kind, so it is no manifest."""


@dataclass(frozen=True)
class Source:
    """The text of a document and the name of its file."""

    file: str
    part: StreamPart


def judge(source: Source, context: Context, *, keep: bool = False) -> list[Judged]:
    """Check a document and return the results.

    There is more than one result if `...` separates several documents in one text.

    Args:
        source: Text of the document.
        context: Facts about the cluster.
        keep: Whether the results keep the objects, for rules that need the whole stack.
    """
    try:
        values = documents(source.part.text)
    except InputError as error:
        return [_unreadable(source, error, error.line or 1)]
    return [
        _Document(source, index, value).judge(context, keep) for index, value in enumerate(values)
    ]


@dataclass(frozen=True)
class _Document:
    source: Source
    index: int
    value: object

    @cached_property
    def _lines(self) -> Lines:
        # Computed on first use, because most documents have no violation that needs a line.
        return Lines(self.source.part.text, self.index)

    def _line(self, path: str) -> int:
        return self.source.part.line + self._lines.line(path) - 1

    def judge(self, context: Context, keep: bool) -> Judged:
        if not isinstance(self.value, dict):
            error = InputError(
                show(self.value), "a Kubernetes object", "Name only files that hold manifests."
            )
            return _unreadable(self.source, error, self._lines.line(""))
        file, number = self.source.file, self.source.part.number
        described = self.value.get("version") if basename(file) == CHART else None
        if "kind" not in self.value and ("apiVersion" not in self.value or described):
            return Judged(file, number, foreign=True)
        objects = [
            Object(Subject.of(manifest, context.namespace).label, place, manifest)
            for place, manifest in items(self.value)
        ]
        problems = [
            Problem.of(error, file, number, self._line(item.place + path))
            for item in objects
            for path, error in mistakes(item.manifest)
        ]
        violations = [
            Found.at(violation, file, number, self._line(violation.path))
            for violation in evaluate(self.value, context)
        ]
        return Judged(
            file=file,
            document=number,
            subjects=tuple(item.subject for item in objects),
            found=tuple(violations),
            problems=tuple(problems),
            unjudged=tuple(self._unjudged(objects)),
            objects=tuple(objects) if keep else (),
            index=self.index,
        )

    def _unjudged(self, objects: Iterable[Object]) -> Iterator[Unjudged]:
        for item in objects:
            kind = f"{text(item.manifest.get('kind'))} ({text(item.manifest.get('apiVersion'))})"
            for path in unread(item.manifest):
                line = self._line(item.place + path)
                yield Unjudged(self.source.file, kind, item.place + path, item.subject, line)


def _unreadable(source: Source, error: InputError, line: int) -> Judged:
    part = source.part
    problem = Problem.of(error, source.file, part.number, part.line + line - 1)
    return Judged(source.file, part.number, problems=(problem,))
