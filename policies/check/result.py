"""What judging a document gives: plain data, which travels between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..faults import worded
from ..rules import Severity, Violation
from .problem import Problem


@dataclass(frozen=True, slots=True)
class Found:
    """A violation with its place; `rule` is the rule's id, `document` and `line` count from 1.

    `exemption`: the end and the reason of the annotation that makes it advice, empty without one.
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

    @classmethod
    def at(cls, violation: Violation, file: str, document: int, line: int) -> Found:
        """A violation at a place."""
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
        )

    @property
    def message(self) -> str:
        """One line: object, container, path, found, wanted, cure; an exemption last."""
        where = f"{self.subject}, container {self.container}" if self.container else self.subject
        line = f"{where}: {self.path}: {worded(self.found, self.wanted, self.cure)}"
        return f"{line} [exempt {self.exemption}]" if self.exemption else line


@dataclass(frozen=True, slots=True)
class Object:
    """An object of a document. `place`: where in it, such as `items[2].`, empty for all of it."""

    subject: str
    place: str
    manifest: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Judged:
    """One document: its objects by name, what they break, and what could not be read.

    `foreign`: it isn't a Kubernetes object, having neither kind nor apiVersion.
    `unjudged`: kinds in it that no rule reads. `objects`: what is
    to be judged together with other documents, where that is wanted; `index`: which document of
    its text it is.
    """

    file: str
    document: int
    subjects: tuple[str, ...] = ()
    found: tuple[Found, ...] = ()
    problems: tuple[Problem, ...] = ()
    foreign: bool = False
    unjudged: tuple[str, ...] = ()
    objects: tuple[Object, ...] = ()
    index: int = 0
