"""The result of checking a document, as plain data that can be sent between processes."""

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
        file: Name of the file.
        document: Number of the document in the file, counted from 1.
        line: Line in the file, counted from 1.
        rule: Id of the rule, such as `GPU001`.
        title: Title of the rule.
        severity: Severity of the violation in this run.
        subject: Kind, namespace and name of the object.
        container: Name of the container, or empty.
        path: Path of the field in the manifest.
        found: What was found.
        wanted: What the rule requires.
        cure: What the user should do.
        exemption: End date and reason of the exemption that makes this advice, or empty.
        known: Whether the baseline names the violation, so that it is no failure.
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
        """Return a violation with its place in a file."""
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
        """Return one line with object, container, path, found, wanted, cure and exemption."""
        where = f"{self.subject}, container {self.container}" if self.container else self.subject
        line = f"{where}: {self.path}: {worded(self.found, self.wanted, self.cure)}"
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
        file: Name of the file.
        document: Number of the document in the file, counted from 1.
        subjects: Kind, namespace and name of each object in the document.
        found: Rule violations.
        problems: Parts of the document that could not be read.
        foreign: Whether the document is not a Kubernetes object: it has no kind and no apiVersion.
        templates: Whether the document is a template or patch that names no GPUs.
        unjudged: Fields in the document that may request GPUs and that no rule reads.
        objects: The objects themselves, if rules for the whole stack need them later.
        index: Index of the document within its text, counted from 0.
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
    """The violations of rendered objects so far, so that each place is reported once.

    Several overlays of a kustomization render the same base.
    """

    def __init__(self) -> None:
        """Begin with no violation."""
        self._seen: set[tuple[object, ...]] = set()

    def judged(self, judged: Judged) -> Judged:
        """Return a result without the violations that another overlay has shown."""
        if not judged.rendered:
            return judged
        return replace(judged, found=tuple(filter(self._is_new, judged.found)))

    def _is_new(self, found: Found) -> bool:
        key = (found.rule, found.file, found.line, found.container, found.path, found.found)
        is_new = key not in self._seen
        self._seen.add(key)
        return is_new
