"""The result of checking a document, in classes that can be sent between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..faults import worded
from ..rules import Severity, Violation
from .problem import Problem, Unjudged


@dataclass(frozen=True, slots=True)
class Found:
    """A rule violation with its place in a file.

    Attributes:
        document: Number of the document in the file, counted from 1.
        line: Line in the file, counted from 1.
        rule: Id of the rule, such as `GPU001`.
        title: Title of the rule.
        severity: Severity of the violation in this run.
        subject: Kind, namespace and name of the object.
        container: Name of the container, or empty.
        found: Value that breaks the rule.
        wanted: What the rule requires.
        exemption: End date and reason of the exemption that applies to the violation, or empty.
        known: Whether the baseline excuses the violation, so that it does not fail the run.
        rendered: Name of the chart or kustomization that the object is rendered from, or empty.
    """

    file: str
    document: int
    line: int
    rule: str
    title: str
    severity: Severity
    subject: str
    container: str
    path: str
    found: str
    wanted: str
    cure: str
    exemption: str
    known: bool = False
    rendered: str = ""

    @classmethod
    def at(
        cls, violation: Violation, file: str, document: int, line: int, rendered: str = ""
    ) -> Found:
        """Return a violation with its file, document and line."""
        return cls(
            file=file,
            document=document,
            line=line,
            rule=violation.rule.id,
            title=violation.rule.title,
            severity=violation.severity,
            subject=violation.subject,
            container=violation.container,
            path=violation.path,
            found=violation.found,
            wanted=violation.wanted,
            cure=violation.cure,
            exemption=violation.exemption,
            rendered=rendered,
        )

    @property
    def message(self) -> str:
        """Return the message about the violation as one line, without file, line and rule."""
        place = f"{self.subject}, container {self.container}" if self.container else self.subject
        line = f"{place}: {self.path}: {worded(self.found, self.wanted, self.cure)}"
        line = f"{line} [exempt {self.exemption}]" if self.exemption else line
        return f"{line} [rendered from {self.rendered}]" if self.rendered else line


@dataclass(frozen=True, slots=True)
class Object:
    """A Kubernetes object in a document.

    Attributes:
        subject: Kind, namespace and name of the object.
        place: Path of the object in the document, such as `items[2].`; empty for the whole
            document.
        manifest: The object as plain data.
    """

    subject: str
    place: str
    manifest: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Judged:
    """The result of checking one document.

    Attributes:
        document: Number of the document in the file, counted from 1.
        subjects: Kind, namespace and name of each object in the document.
        found: Rule violations.
        problems: Fields of a wrong type, or the parse error of the whole document.
        foreign: Whether the document is not a Kubernetes object: it has no kind and no apiVersion.
        templates: Whether the document is a template or patch that names no GPUs.
        unjudged: Fields that may request GPUs but that no rule reads, or a skipped document.
        objects: The objects themselves, if rules that compare several objects need them later.
        index: Index of the document, counted from 0, if the YAML marker `...` splits a text into
            several documents.
        rendered: Name of the chart or kustomization that rendered the document, or empty.
    """

    file: str
    document: int
    subjects: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    problems: tuple[Problem, ...] = ()
    foreign: bool = False
    templates: bool = False
    unjudged: tuple[Unjudged, ...] = ()
    objects: tuple[Object, ...] = ()
    index: int = 0
    rendered: str = ""


class Once:
    """Filter that drops repeated violations of rendered objects.

    If several overlays of a kustomization render the same base, a violation in the base is reported
    only once.
    """

    def __init__(self) -> None:
        """Create a filter that has seen no violation yet."""
        self._seen: set[tuple[object, ...]] = set()

    def judged(self, judged: Judged) -> Judged:
        """Return a result without the violations that an earlier result already contains."""
        if not judged.rendered:
            return judged
        return replace(judged, found=tuple(filter(self._is_new, judged.found)))

    def _is_new(self, violation: Found) -> bool:
        key = (
            violation.rule,
            violation.file,
            violation.line,
            violation.container,
            violation.path,
            violation.found,
        )
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new
