"""Judging the text of one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from policies.check.lines import Lines
from policies.check.parse import documents
from policies.check.problem import InputError, Problem, show
from policies.check.result import Found, Judged
from policies.check.shape import mistakes
from policies.check.stream import Part
from policies.rules import Context, evaluate


@dataclass(frozen=True)
class Source:
    """A document's text and the file that it is from."""

    file: str
    part: Part


def judge(source: Source, context: Context) -> list[Judged]:
    """The document judged; several where `...` separates more of them in one text."""
    try:
        values = documents(source.part.text)
    except InputError as error:
        return [_unreadable(source, error, error.line or 1)]
    return [_Document(source, index, value).judge(context) for index, value in enumerate(values)]


@dataclass(frozen=True)
class _Document:
    source: Source
    index: int
    value: object

    @cached_property
    def _lines(self) -> Lines:
        return Lines(self.source.part.text, self.index)  # most documents need none

    def _line(self, path: str) -> int:
        return self.source.part.line + self._lines.line(path) - 1

    def judge(self, context: Context) -> Judged:
        if not isinstance(self.value, dict):
            error = InputError(
                show(self.value), "a Kubernetes object", "Name only files that hold manifests."
            )
            return _unreadable(self.source, error, self._lines.line(""))
        file, number = self.source.file, self.source.part.number
        if "kind" not in self.value and "apiVersion" not in self.value:
            return Judged(file, number, foreign=True)
        objects = list(_objects(self.value))
        problems = [
            Problem(file, number, self._line(place + path), error.found, error.wanted, error.cure)
            for place, each in objects
            for path, error in mistakes(each)
        ]
        found = [
            Found.at(violation, file, number, self._line(violation.path))
            for violation in evaluate(self.value, context)
        ]
        names = tuple(_name(each) for _, each in objects)
        return Judged(file, number, names, tuple(found), tuple(problems))


def _unreadable(source: Source, error: InputError, line: int) -> Judged:
    problem = Problem(
        source.file,
        source.part.number,
        source.part.line + line - 1,
        error.found,
        error.wanted,
        error.cure,
    )
    return Judged(source.file, source.part.number, problems=(problem,))


def _objects(manifest: Mapping[str, object]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The objects of a `List` with their places, or the object itself."""
    items = manifest.get("items")
    if str(manifest.get("kind")).endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield f"items[{index}].", item
    else:
        yield "", manifest


def _name(manifest: Mapping[str, object]) -> str:
    """Kind, namespace and name, as a violation's `subject` has them."""
    metadata = manifest.get("metadata")
    names = [metadata.get("namespace"), metadata.get("name")] if isinstance(metadata, dict) else []
    label = "/".join(each for each in names if each and isinstance(each, str))
    return f"{manifest.get('kind')} {label}".strip()
